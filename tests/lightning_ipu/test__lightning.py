"""Which Lightning package is chosen."""

import sys

import pytest

import lightning_ipu
from lightning_ipu import _lightning


def test_neither_package_installed_says_what_to_install(monkeypatch):
    monkeypatch.setattr(_lightning, "is_imported", lambda package: False)
    monkeypatch.setattr(_lightning, "is_installed", lambda package: False)
    with pytest.raises(ImportError, match="found neither `lightning` nor `pytorch-lightning`.*pip install lightning"):
        _lightning.chosen()


@pytest.mark.parametrize("package", _lightning.PACKAGES)
def test_the_only_imported_package_is_chosen(monkeypatch, package):
    pytest.importorskip(package)
    monkeypatch.setattr(_lightning, "is_imported", lambda name: name == package)
    monkeypatch.setattr(_lightning, "_trainer_seen_from", [])
    assert _lightning.chosen().package == package


@pytest.mark.parametrize("package", _lightning.PACKAGES)
def test_a_package_whose_import_is_blocked_is_neither_imported_nor_installed(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    assert not _lightning.is_imported(package)
    assert not _lightning.is_installed(package)
    other = next(one for one in _lightning.PACKAGES if one != package)
    if _lightning.is_installed(other):
        monkeypatch.setattr(_lightning, "_trainer_seen_from", [])
        assert _lightning.chosen().package == other


def test_unknown_public_names_list_the_known_ones():
    with pytest.raises(AttributeError, match="has no attribute 'IPUStrategie'; it has IPUAccelerator, IPUPrecision, IPUStrategy"):
        lightning_ipu.IPUStrategie  # noqa: B018


def test_version_is_the_distributions():
    assert lightning_ipu.__version__ == _lightning.own_version() != ""
    assert "lightning_ipu" in sys.modules
