"""Names and values of PopTorch's enumerations, as its users store them."""

import enum

import pytest

from softipu.poptorch import enums

VALUES = {
    "OutputMode": {"Final": 0, "EveryN": 1, "All": 2, "Sum": 3, "Default": 4},
    "ReductionType": {"Sum": 0, "Mean": 1, "NoReduction": 2},
    "MeanReductionStrategy": {"Running": 0, "Post": 1, "PostAndLoss": 2},
    "DataLoaderMode": {"Sync": 0, "Async": 1, "AsyncRebatched": 2},
    "SharingStrategy": {"SharedMemory": 0, "FileSystem": 1, "Fork": 2, "ForkServer": 3},
    "ConnectionType": {"Always": 0, "OnDemand": 1, "Never": 2},
    "HalfFloatCastingBehavior": {"FloatDowncastToHalf": 0, "HalfUpcastToFloat": 1, "Default": 2},
    "SyncPattern": {"Full": 0, "SinglePipeline": 1, "ReplicaAndLadder": 2},
    "Liveness": {"AlwaysLive": 0, "OffChipAfterFwd": 1, "OffChipAfterFwdNoOverlap": 2, "OffChipAfterEachPhase": 3},
    "AutoStage": {"SameAsIpu": 0, "AutoIncrement": 1},
    "MultiConvPlanType": {"Parallel": 0, "Serial": 1},
    "CommGroupType": {"All": 0, "Consecutive": 1, "Orthogonal": 2, "NoGrouping": 3},
    "VariableRetrievalMode": {"OnePerGroup": 0, "AllReplicas": 2},
    "MatMulSerializationMode": {
        "InputChannels": "input_channels",
        "ReducingDim": "reducing_dim",
        "OutputChannels": "output_channels",
        "Disabled": "none",
    },
    "OverlapMode": {
        "NoOverlap": "no_overlap",
        "OverlapAccumulationLoop": "overlap_accumulation_loop",
        "OverlapDeviceIterationLoop": "overlap_device_iteration_loop",
    },
}


@pytest.mark.parametrize("name", sorted(VALUES))
def test_members_have_poptorchs_values(name):
    kind = getattr(enums, name)
    assert {member.name: member.value for member in kind} == VALUES[name]


@pytest.mark.parametrize("name", sorted(set(VALUES) - {"MatMulSerializationMode", "OverlapMode"}))
def test_members_compare_with_integers(name):
    kind = getattr(enums, name)
    assert issubclass(kind, enum.IntEnum)
    for member_name, value in VALUES[name].items():
        assert getattr(kind, member_name) == value


def test_every_enum_of_the_module_is_pinned():
    found = {n for n, v in vars(enums).items() if isinstance(v, type) and issubclass(v, enum.Enum)}
    assert found == set(VALUES)
