"""save, compileAndExport, load and loadExecutable: files that go on where the model was, and never run code."""

import dataclasses
import enum
import json
import os
import pickle
import zipfile

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from softipu import poptorch
from softipu.poptorch.saved.archive import read_archive, write_archive


class Kind(enum.Enum):
    SMALL = 1


@dataclasses.dataclass
class Config:
    width: int
    kind: Kind


class WithLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(10, 10)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x, target=None):
        fc = self.fc(x)
        return (fc, self.loss(fc, target)) if self.training else fc


class Rich(nn.Module):
    """One of everything that a file can hold."""

    def __init__(self):
        super().__init__()
        self.config = Config(8, Kind.SMALL)
        self.settings = {"shape": (1, torch.Size([2])), "limits": [float("inf"), None], 3: {1, 2}, "type": torch.float16}
        self.activation, self.other = torch.relu, F.gelu
        self.plain = torch.arange(8.0)
        self.inner = poptorch.BeginBlock(nn.Linear(4, 8), "inner", ipu_id=0)
        self.listed = nn.ModuleList([self.inner])
        self.kept = [self.inner]
        self.tied = nn.Linear(4, 8, bias=False)
        self.tied.weight = self.inner.weight
        self.norm = nn.BatchNorm1d(8)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.rnn = nn.LSTM(8, 8, batch_first=True)
        self.frozen = nn.Parameter(torch.ones(8), requires_grad=False)
        self.register_buffer("offset", torch.ones(8), persistent=False)
        self.register_buffer("count", torch.zeros((), dtype=torch.int32))
        self.head = nn.Linear(8, 3)

    def forward(self, x, y):
        hidden = self.activation(self.norm(self.listed[0](x) + self.tied(x))) * self.frozen + self.offset + self.plain
        hidden = self.encoder(self.other(hidden)[:, None])
        return F.cross_entropy(self.head(self.rnn(hidden)[0][:, 0]), y)


def data():
    torch.manual_seed(3)
    return torch.randn(2, 10), torch.randint(0, 10, (2,))


def new(training=True, options=None, optimizer=None):
    torch.manual_seed(42)
    model = WithLoss().train(training)
    if not training:
        return poptorch.inferenceModel(model, options)
    return poptorch.trainingModel(model, options, optimizer(model.parameters()) if optimizer else None)


OPTIMIZERS = {
    "default": None,
    "torch SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "torch AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "SGD": lambda p: poptorch.optim.SGD(p, lr=0.1, momentum=0.9, loss_scaling=8.0, max_grad_norm=1.0),
    "Adam": lambda p: poptorch.optim.Adam([{"params": list(p), "weight_decay": 0.1}], lr=0.01),
    "RMSprop": lambda p: poptorch.optim.RMSprop(p, lr=0.01, use_tf_variant=True),
    "LAMB": lambda p: poptorch.optim.LAMB(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_loaded_model_trains_on_as_the_saved_one(name, tmp_path):
    saved, (x, y) = new(optimizer=OPTIMIZERS[name]), data()
    for _ in range(3):
        saved(x, y)
    saved.save(str(tmp_path / "m.poptorch"))
    loaded = poptorch.load(str(tmp_path / "m.poptorch"))
    assert loaded.isCompiled() and loaded.isAttachedToDevice() and loaded.model is not saved.model
    for _ in range(3):
        for a, b in zip(saved(x, y), loaded(x, y)):
            assert torch.equal(a, b)
    for a, b in zip(saved.model.parameters(), loaded.model.parameters()):
        assert torch.equal(a, b)


def test_random_numbers_go_on(tmp_path):
    torch.manual_seed(0)
    executor = poptorch.trainingModel(Rich(), poptorch.Options().randomSeed(7))
    batch = torch.randn(4, 4), torch.randint(0, 3, (4,))
    executor(*batch)
    executor.save(str(tmp_path / "with"))
    executor.save(str(tmp_path / "without"), save_rng_state=False)
    state = executor.rng_state
    expected = executor(*batch)
    loaded = poptorch.load(str(tmp_path / "with"))
    assert loaded.rng_state == state
    assert torch.equal(loaded(*batch), expected)
    assert poptorch.load(str(tmp_path / "without")).rng_state == [7, 0]


def test_everything_a_module_holds_comes_back(tmp_path):
    torch.manual_seed(0)
    saved = poptorch.trainingModel(Rich())
    saved.compile(torch.randn(4, 4), torch.randint(0, 3, (4,)))
    saved.save(str(tmp_path / "m"))
    before, after = saved.model, poptorch.load(str(tmp_path / "m")).model
    assert repr(after) == repr(before)
    assert after.config == before.config and after.settings == before.settings
    assert after.activation is torch.relu and after.other is F.gelu
    assert torch.equal(after.plain, before.plain)
    assert after.listed[0] is after.inner and after.kept[0] is after.inner and after.tied.weight is after.inner.weight
    assert not after.frozen.requires_grad and after.inner.weight.requires_grad
    assert list(after.state_dict()) == list(before.state_dict())
    assert "offset" in dict(after.named_buffers()) and after.count.dtype == torch.int32
    with pytest.raises(poptorch.Error, match="already been assigned to a block.*user_id=inner"):
        poptorch.BeginBlock(after.inner)


def test_options_come_back_and_can_be_edited(tmp_path):
    options = poptorch.Options().deviceIterations(2).randomSeed(5).outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(3).accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    options.Precision.enableStochasticRounding(False)
    options.TensorLocations.setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage(False))
    options.setExecutionStrategy(poptorch.ShardedExecution(poptorch.Stage("a").ipu(1), ["b", "c"]))
    options._Popart.set("saveInitializersToFile", "w.onnx")
    saved = new(options=options)
    x, y = data()
    saved.compile(x.repeat(3, 1), y.repeat(3))
    saved.save(str(tmp_path / "m"))

    seen = []
    loaded = poptorch.load(str(tmp_path / "m"), edit_opts_fn=lambda o: seen.append(repr(o)) or o.modelName("edited"))
    assert seen == [repr(saved.options)]
    assert loaded.options.model_name == "edited" and not saved.options.exists("model_name")


@pytest.mark.parametrize(
    "strategy",
    [
        lambda: poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement),
        lambda: (
            poptorch.SerialPhasedExecution(poptorch.Phase(poptorch.Stage("a"), poptorch.Stage("b").ipu(3)), ["c"])
            .setTensorsLiveness(poptorch.Liveness.OffChipAfterFwd)
            .useSeparateBackwardPhase()
        ),
    ],
)
def test_execution_strategies_come_back(strategy, tmp_path):
    options = poptorch.Options().setExecutionStrategy(strategy())
    saved = new(training=False, options=options)
    saved.compile(data()[0])
    saved.save(str(tmp_path / "m"))
    loaded = poptorch.load(str(tmp_path / "m")).options._execution_strategy
    assert repr(loaded) == repr(strategy()) and loaded.backendOptions() == strategy().backendOptions()


def test_inference_model_is_loaded_as_one(tmp_path):
    saved, (x, _) = new(training=False), data()
    expected = saved(x)
    saved.save(str(tmp_path / "m"))
    saved.destroy()
    loaded = poptorch.load(str(tmp_path / "m"))
    assert torch.equal(loaded(x), expected) and not loaded.model.training


def test_offline_target_compiles_and_saves_and_loads_to_run(tmp_path):
    options = poptorch.Options().useOfflineIpuTarget(2)
    saved, (x, y) = new(options=options), data()
    saved.compileAndExport(str(tmp_path / "m"), x, y)
    assert saved.isCompiled() and not saved.isAttachedToDevice()
    with pytest.raises(AssertionError, match="offline device"):
        saved(x, y)
    with pytest.raises(AssertionError, match="offline device"):
        saved.attachToDevice()
    loaded = poptorch.load(str(tmp_path / "m"))
    assert loaded.isAttachedToDevice() and not loaded.options.exists("ipu_version")
    loaded(x, y)


def test_executable_alone_runs_a_module_of_ones_own(tmp_path):
    x, y = data()
    new().compileAndExport(str(tmp_path / "train"), x, y, export_model=False)
    new(training=False).compileAndExport(str(tmp_path / "valid"), x, export_model=False)
    model = WithLoss()
    training = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5))
    training.loadExecutable(str(tmp_path / "train"))
    assert training.isCompiled()
    model.eval()
    validation = poptorch.inferenceModel(model)
    validation.loadExecutable(str(tmp_path / "valid"))
    for _ in range(100):
        _, loss = training(x, y)
    assert loss < 0.1
    assert torch.equal(torch.argmax(validation(x), dim=1), y)
    assert os.path.getsize(tmp_path / "train") < 2000  # no weights


def test_weights_of_a_loaded_model_can_be_saved_and_loaded(tmp_path):
    x, y = data()
    new().compileAndExport(str(tmp_path / "m"), x, y)
    first = poptorch.load(str(tmp_path / "m"))
    first(x, y)
    torch.save(first.model.state_dict(), tmp_path / "weights")
    trained = first.model.fc.weight.detach().clone()
    first.destroy()
    second = poptorch.load(str(tmp_path / "m"))
    second.load_state_dict(torch.load(tmp_path / "weights"))
    second(x, y)
    second.destroy()
    assert not torch.equal(second.model.fc.weight, trained)
    first = poptorch.load(str(tmp_path / "m"))
    first(x, y), first(x, y)
    assert torch.equal(first.model.fc.weight, second.model.fc.weight)


def test_whole_module_of_an_executor_can_be_pickled(tmp_path):
    executor, (x, y) = new(), data()
    executor(x, y)
    torch.save(executor.model, tmp_path / "module")
    options = {"weights_only": False} if torch.__version__ >= "2.6" else {}
    loaded = torch.load(tmp_path / "module", **options)
    assert torch.equal(loaded.fc.weight, executor.model.fc.weight) and type(loaded.fc.weight) is nn.Parameter


def test_saving_detached_and_before_running(tmp_path):
    executor, (x, y) = new(), data()
    with pytest.raises(poptorch.Error, match="has not been compiled or has been destroyed"):
        executor.save(str(tmp_path / "m"))
    executor.compile(x, y)
    executor.save(str(tmp_path / "before"))
    executor(x, y)
    executor.detachFromDevice()
    executor.save(str(tmp_path / "detached"))
    assert torch.equal(poptorch.load(str(tmp_path / "detached")).model.fc.weight, executor.model.fc.weight)
    assert not torch.equal(poptorch.load(str(tmp_path / "before")).model.fc.weight, executor.model.fc.weight)


def test_structured_inputs_come_back(tmp_path):
    class Structured(nn.Module):
        def forward(self, pair, named, scale=2):
            return (pair[0] + named["b"]) * scale

    Structured.__qualname__ = "Structured"
    globals()["Structured"] = Structured
    executor = poptorch.inferenceModel(Structured())
    arguments = ((torch.ones(2), None), {"b": torch.ones(2)}, 3)
    executor.compileAndExport(str(tmp_path / "m"), *arguments)
    assert poptorch.load(str(tmp_path / "m"))(*arguments).tolist() == [6, 6]


# Destinations


def test_folder_gets_the_default_name_and_missing_folders_are_made(tmp_path, caplog):
    executor, (x, y) = new(), data()
    executor.compile(x, y)
    executor.save(str(tmp_path))
    assert (tmp_path / "model.poptorch").exists() and "is an existing directory" in caplog.text
    executor.save(str(tmp_path / "a" / "b" / "m"))
    assert sorted(os.listdir(tmp_path / "a" / "b")) == ["m"]


def test_parent_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    executor, (x, y) = new(), data()
    executor.compile(x, y)
    with pytest.raises(AssertionError, match="is not a directory"):
        executor.save(str(tmp_path / "file" / "m"))


# What cannot be saved


class Hooked(WithLoss):
    def __init__(self):
        super().__init__()
        self.fc.register_forward_hook(lambda *args: None)


class WithLambda(WithLoss):
    def __init__(self):
        super().__init__()
        self.scale = lambda x: x


class WithObject(WithLoss):
    def __init__(self):
        super().__init__()
        self.settings = {"inner": [object()]}


def local():
    class Local(WithLoss):
        pass

    return Local()


def normalised():
    model = WithLoss()
    nn.utils.weight_norm(model.fc)
    return model


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Hooked, r"the module 'fc' \(Linear\) has hooks \(_forward_hooks: .*which are code"),
        (WithLambda, r"the module \(WithLambda\) has an attribute 'scale': a builtins.function has no form"),
        (WithObject, r"has an attribute 'settings': a builtins.object has no form"),
        (local, r"the class local.<locals>.Local is defined inside a function"),
        (normalised, r"the module 'fc' \(Linear\) has hooks \(_forward_pre_hooks: .*WeightNorm"),
    ],
)
def test_what_is_code_is_refused_with_another_way(make, message, tmp_path):
    executor, (x, y) = poptorch.trainingModel(make()), data()
    executor.compile(x, y)
    with pytest.raises(poptorch.Error, match=message) as caught:
        executor.save(str(tmp_path / "m"))
    assert "export_model=False" in str(caught.value) and not os.listdir(tmp_path)
    executor.save(str(tmp_path / "m"), export_model=False)
    again = poptorch.trainingModel(make())
    again.loadExecutable(str(tmp_path / "m"))
    again(x, y)


# What cannot be loaded


@pytest.fixture
def file(tmp_path):
    executor, (x, y) = new(), data()
    executor.compileAndExport(str(tmp_path / "m"), x, y)
    return str(tmp_path / "m")


def edited(file, change):
    archive = read_archive(file)
    change(archive.documents["model"])
    write_archive(file, archive.documents, archive.tensors)
    return file


def refused(file, message, error=AssertionError):
    with pytest.raises(error, match=message):
        poptorch.load(file)


def test_foreign_and_damaged_files(file, tmp_path):
    (tmp_path / "text").write_text("hello")
    (tmp_path / "pickle").write_bytes(pickle.dumps({"a": 1}))
    torch.save({"a": torch.ones(1)}, tmp_path / "checkpoint")
    whole = open(file, "rb").read()
    (tmp_path / "short").write_bytes(whole[: len(whole) // 2])
    for name in ("text", "pickle", "checkpoint", "short", "missing"):
        refused(str(tmp_path / name), "Invalid file .*" + name)
        with pytest.raises(poptorch.Error, match="Invalid file .*" + name):
            new().loadExecutable(str(tmp_path / name))


def test_file_of_another_version(file):
    edited(file, lambda document: document.update(version="2.0.0"))
    refused(file, r"PopTorch version mismatch: .* was written by 2\.0\.0, and this is")
    with pytest.raises(AssertionError, match="PopTorch version mismatch"):
        new().loadExecutable(file)


def test_file_without_the_model(tmp_path):
    executor, (x, y) = new(), data()
    executor.compileAndExport(str(tmp_path / "m"), x, y, export_model=False)
    refused(str(tmp_path / "m"), "written with export_model=False.*loadExecutable")


def test_executable_of_the_other_kind(file):
    with pytest.raises(poptorch.Error, match="compiled by a trainingModel, and this is an inferenceModel"):
        new(training=False).loadExecutable(file)


def test_classes_are_not_imported(file):
    def other_class(document):
        document["model"]["module"]["modules"][0]["class"] = "this:Zen"

    edited(file, other_class)
    refused(file, "the class Zen is in the module this, which is not imported; import it first")


@pytest.mark.parametrize("name", ["os:system", "builtins:eval", "subprocess:Popen", "collections:OrderedDict"])
def test_only_modules_are_made(file, name):
    def other_class(document):
        document["model"]["module"]["modules"][0]["class"] = name

    edited(file, other_class)
    refused(file, "has no class|is no torch.nn.Module")


@pytest.mark.parametrize(
    "form",
    [
        ["function", "os.system"],
        ["function", "torch.load"],
        ["function", "torch.nn.functional.warnings"],
        ["enum", "os:system", "x"],
        ["dataclass", "subprocess:Popen", ["args", "ls"]],
        ["named_tuple", "subprocess:Popen", 1],
        ["dtype", "load"],
        ["object", "os:system"],
        ["tensor", 99999],
    ],
)
def test_attributes_are_data_only(file, form):
    edited(file, lambda document: document["model"]["module"]["modules"][0]["attributes"].update(secret=form))
    refused(file, "it is damaged|it needs a class that is not there")


def test_attributes_cannot_replace_what_a_module_is_made_of(file):
    def attack(document):
        document["model"]["module"]["modules"][0]["attributes"].update(_forward_hooks=["dict"], __class__=3)

    edited(file, attack)
    loaded = poptorch.load(file)
    assert type(loaded.model) is WithLoss


def test_file_holds_no_pickle(file):
    with zipfile.ZipFile(file) as archive:
        assert sorted(archive.namelist()) == ["documents.json", "tensors", "tensors.json"]
        json.loads(archive.read("documents.json"))
