"""Transfers between IPUs by hand."""

import pytest

from softipu.cost.links import all_reduce_seconds, hop_seconds, pipeline_seconds
from softipu.hardware import find_system

POD16, POD256 = find_system("bow-pod16"), find_system("bow-pod256")
LINK = 2 * 16e9 * 0.85


def test_stages_send_over_two_links():
    assert pipeline_seconds(POD16, 1e9, 2).datasheet == pytest.approx(1e9 / LINK)
    assert pipeline_seconds(POD16, 0, 2).total == 0


def test_synchronising_sixteen_takes_five_hops_both_ways():
    assert hop_seconds(POD16, 16) == pytest.approx(2 * 15e-9 * 5)


def test_ring_sends_nearly_twice_the_bytes():
    found = all_reduce_seconds(POD16, 1e9, n_replicas=16, n_ipus_per_replica=1, n_tensors=1)
    assert found.datasheet == pytest.approx(2 * 15 / 16 * 1e9 / LINK)


def test_rings_of_replicas_of_several_ipus_share_links():
    one = all_reduce_seconds(POD16, 1e9, n_replicas=2, n_ipus_per_replica=2, n_tensors=1)
    four = all_reduce_seconds(POD16, 1e9, n_replicas=2, n_ipus_per_replica=8, n_tensors=1)
    assert four.datasheet == pytest.approx(4 * one.datasheet)


def test_several_racks_add_a_ring_over_gateways():
    inside = all_reduce_seconds(POD256, 1e9, n_replicas=64, n_ipus_per_replica=1, n_tensors=1)
    across = all_reduce_seconds(POD256, 1e9, n_replicas=256, n_ipus_per_replica=1, n_tensors=1)
    # Each IPU takes 1/64 of the bytes out of the rack, and four IPUs share a gateway.
    assert across.datasheet - inside.datasheet == pytest.approx(2 * 3 / 4 * 1e9 / 64 * 4 / 25e9)


def test_each_tensor_takes_two_trips_over_the_gateways_to_every_other_rack():
    inside = all_reduce_seconds(POD256, 1e9, n_replicas=64, n_ipus_per_replica=1, n_tensors=10)
    across = all_reduce_seconds(POD256, 1e9, n_replicas=256, n_ipus_per_replica=1, n_tensors=10)
    assert across.formula - inside.formula == pytest.approx(10 * 2 * 3 * 5e-6)


def test_one_replica_adds_up_nothing():
    assert all_reduce_seconds(POD16, 1e9, n_replicas=1, n_ipus_per_replica=4, n_tensors=10).total == 0
