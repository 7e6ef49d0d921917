"""Options of where tensors live (``options.TensorLocations``). They change memory and speed on hardware, never a value."""

from typing import Optional

from softipu.poptorch.options.option_set import OptionSet


class TensorLocationSettings(OptionSet):
    """Where one kind of tensor lives."""

    def minElementsForOffChip(self, min_elements: int) -> "TensorLocationSettings":
        """Keep tensors with fewer elements on the chip. AssertionError: no int."""
        assert isinstance(min_elements, int), f"minElementsForOffChip needs an int, given {min_elements!r}"
        self.createOrSet(minElementsForOffChip=min_elements)
        return self

    def minElementsForReplicatedTensorSharding(self, min_elements: int) -> "TensorLocationSettings":
        """Shard over replicas only tensors with more elements. AssertionError: no int."""
        assert isinstance(min_elements, int), f"minElementsForReplicatedTensorSharding needs an int, given {min_elements!r}"
        self.createOrSet(minElementsForReplicatedTensorSharding=min_elements)
        return self

    def useOnChipStorage(self, use: Optional[bool] = True) -> "TensorLocationSettings":
        """True: on the chip; False: in streaming memory; None: as PopART decides. AssertionError: anything else."""
        if use is None:
            self.deleteIfExists("onChip")
            return self
        return self._switch("onChip", use)

    def useReplicatedTensorSharding(self, use: bool = True) -> "TensorLocationSettings":
        """Each replica keeps a part of the tensor. AssertionError: no bool."""
        return self._switch("useReplicatedTensorSharding", use)

    def useIOTilesToLoad(self, use: bool = True) -> "TensorLocationSettings":
        """Load through the I/O tiles. AssertionError: no bool."""
        return self._switch("useIOTilesToLoad", use)

    def useIOTilesToStore(self, use: bool = True) -> "TensorLocationSettings":
        """Store through the I/O tiles. AssertionError: no bool."""
        return self._switch("useIOTilesToStore", use)

    def _switch(self, name: str, use: bool) -> "TensorLocationSettings":
        assert isinstance(use, bool), f"{name} needs True or False, given {use!r}"
        self.createOrSet(**{name: int(use)})
        return self


class _TensorLocationOptions(OptionSet):
    """Readable once set: location_activation, location_weight, location_optimizer, location_accumulator (dicts), numIOTiles."""

    @property
    def n_io_tiles(self) -> int:
        """Tiles of each IPU that ``numIOTiles`` has set aside; 0 unless it was called."""
        return int(self._values.get("numIOTiles", 0))

    def numIOTiles(self, num_tiles: int) -> "_TensorLocationOptions":
        """Tiles of each IPU set apart for input and output.

        Raises:
            AssertionError: not an even int from 32 to 192.
        """
        assert isinstance(num_tiles, int), f"numIOTiles needs an int, given {num_tiles!r}"
        assert 32 <= num_tiles <= 192 and num_tiles % 2 == 0, f"numIOTiles must be an even number between 32 and 192. Given {num_tiles}"
        self.createOrSet(numIOTiles=num_tiles)
        return self

    def setActivationLocation(self, location: TensorLocationSettings) -> "_TensorLocationOptions":
        """Where activations live. AssertionError: no TensorLocationSettings."""
        return self._locate("location_activation", location)

    def setWeightLocation(self, location: TensorLocationSettings) -> "_TensorLocationOptions":
        """Where weights live. AssertionError: no TensorLocationSettings."""
        return self._locate("location_weight", location)

    def setOptimizerLocation(self, location: TensorLocationSettings) -> "_TensorLocationOptions":
        """Where optimizer states live. AssertionError: no TensorLocationSettings."""
        return self._locate("location_optimizer", location)

    def setAccumulatorLocation(self, location: TensorLocationSettings) -> "_TensorLocationOptions":
        """Where gradient accumulators live. AssertionError: no TensorLocationSettings."""
        return self._locate("location_accumulator", location)

    def _locate(self, name: str, location: TensorLocationSettings) -> "_TensorLocationOptions":
        assert isinstance(location, TensorLocationSettings), f"A location is a poptorch.TensorLocationSettings, given {location!r}"
        self.createOrSet(**{name: location.toDict()})
        return self
