"""Worker processes that torch's DataLoader has inside the accessor's worker end by themselves, not by a signal."""

import os
import signal
import time

import pytest
import torch

from softipu import poptorch


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((3,), float(index))


class TellsOfSignals:
    """Leaves a file behind in a worker that is ended by SIGTERM."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, worker_id):
        def tell(number, frame):
            open(os.path.join(self.folder, f"ended_{worker_id}"), "w").close()
            os._exit(1)

        signal.signal(signal.SIGTERM, tell)
        open(os.path.join(self.folder, f"begun_{worker_id}"), "w").close()


@pytest.mark.parametrize("persistent", [True, False])
def test_an_early_stop_lets_them_finish(persistent, tmp_path):
    loader = poptorch.DataLoader(
        poptorch.Options(),
        Rows(),
        batch_size=2,
        num_workers=2,
        persistent_workers=persistent,
        mode=poptorch.DataLoaderMode.Async,
        async_options={"sharing_strategy": poptorch.SharingStrategy.Fork},
        worker_init_fn=TellsOfSignals(str(tmp_path)),
    )
    assert next(iter(loader)).shape == (2, 3)
    loader.terminate()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["begun_0", "begun_1"]
