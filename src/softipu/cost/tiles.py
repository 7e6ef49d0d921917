"""How buffers lie on the tiles, and how full the fullest is.

Every buffer is cut into grains and dealt to neighbouring tiles, beginning where the one before ended, as PopLibs maps tensors. A
buffer with fewer grains than there are tiles lies on some of them only.
"""

from typing import Iterable, List, Sequence, Tuple

from softipu.report.cost_report import TileBand

GRAIN_BYTES = 128  # graphcore/poplibs: poputil maps at least 128 bytes to a tile
N_BANDS = 16


def spread(buffers: Iterable[float], n_tiles: int) -> List[float]:
    """Bytes on every tile."""
    steps = [0.0] * (n_tiles + 1)
    everywhere, start = 0.0, 0
    for size in buffers:
        grains = max(1, -(-int(size) // GRAIN_BYTES))
        each, rest = divmod(grains, n_tiles)
        everywhere += each * GRAIN_BYTES
        end = start + rest
        if rest:
            steps[start] += GRAIN_BYTES
            if end <= n_tiles:
                steps[end] -= GRAIN_BYTES
            else:  # round the end
                steps[n_tiles] -= GRAIN_BYTES
                steps[0] += GRAIN_BYTES
                steps[end - n_tiles] -= GRAIN_BYTES
        start = end % n_tiles
    tiles, height = [], everywhere
    for step in steps[:n_tiles]:
        height += step
        tiles.append(height)
    return tiles


def bands(tiles: Sequence[float]) -> Tuple[TileBand, ...]:
    """Histogram of the tiles' use in bands of equal width."""
    low, high = min(tiles), max(tiles)
    width = (high - low) / N_BANDS
    if not width:
        return (TileBand(low, high, len(tiles)),)
    counts = [0] * N_BANDS
    for tile in tiles:
        counts[min(N_BANDS - 1, int((tile - low) / width))] += 1
    return tuple(TileBand(low + i * width, low + (i + 1) * width, n) for i, n in enumerate(counts))
