"""How buffers lie on tiles."""

from hypothesis import given
from hypothesis import strategies as st

from softipu.cost.tiles import GRAIN_BYTES, bands, spread


def test_small_buffers_follow_one_another():
    assert spread([2 * GRAIN_BYTES, GRAIN_BYTES], 4) == [GRAIN_BYTES] * 3 + [0]


def test_a_buffer_goes_round_the_end():
    assert spread([3 * GRAIN_BYTES, 2 * GRAIN_BYTES], 4) == [2 * GRAIN_BYTES] + [GRAIN_BYTES] * 3


def test_a_large_buffer_is_everywhere():
    assert spread([9 * GRAIN_BYTES], 4) == [3 * GRAIN_BYTES] + [2 * GRAIN_BYTES] * 3


@given(st.lists(st.floats(1, 1e6), max_size=30), st.integers(1, 200))
def test_tiles_hold_every_buffer_rounded_to_grains(sizes, n_tiles):
    tiles = spread(sizes, n_tiles)
    grains = sum(max(1, -(-int(size) // GRAIN_BYTES)) for size in sizes)
    assert len(tiles) == n_tiles and min(tiles) >= 0
    assert sum(tiles) == grains * GRAIN_BYTES
    assert max(tiles) - min(tiles) <= GRAIN_BYTES  # each begins where the one before ended


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200))
def test_bands_count_every_tile_once(tiles):
    found = bands(tiles)
    assert sum(band.n_tiles for band in found) == len(tiles)
    assert (found[0].low_bytes, max(tiles)) <= (min(tiles), found[-1].high_bytes * (1 + 1e-9) + 1e-9)
