"""Options.loadFromFile: setter calls, read without running Python."""

import pytest

from softipu.poptorch import enums
from softipu.poptorch.blocks import strategies
from softipu.poptorch.options import ConfigFileError, Options


@pytest.fixture
def load(tmp_path):
    def load(*lines, options=None):
        file = tmp_path / "tmp.conf"
        file.write_text("\n".join(lines))
        options = options or Options()
        assert options.loadFromFile(str(file)) is options
        return options

    return load


def test_setters_blank_lines_and_comments(load):
    options = load(
        "deviceIterations(1)",
        "setExecutionStrategy(poptorch.ShardedExecution())",
        "  replicationFactor(2)",
        " ",
        "enableSyntheticData(True) # inline comment",
        "# comment",
        "Training.gradientAccumulation(2 * 4)",
        "outputMode(poptorch.OutputMode.EveryN, output_return_period=3)",
        "_Popart.set('engineOptions', {'a': 'b'})",
        "_Popart.set('dotChecks', ['FINAL', -1, (1.5, None)])",
        "setAvailableMemoryProportion({'IPU0': 0.25})",
        "Precision.setPartialsType(torch.half)",
    )
    assert isinstance(options._execution_strategy, strategies.ShardedExecution)
    assert (options.replication_factor, options.Training.gradient_accumulation) == (2, 8)
    assert (options.output_mode, options.output_return_period) == (enums.OutputMode.EveryN, 3)
    popart = options._Popart.options
    assert popart["syntheticDataMode"] == 2 and popart["engineOptions"] == {"a": "b"}
    assert popart["dotChecks"] == ["FINAL", -1, (1.5, None)] and popart["partialsTypeMatMuls"] == "half"
    assert options.available_memory_proportion == {0: 0.25}


def test_later_files_override_only_what_they_set(load):
    options = load("deviceIterations(2)", "replicationFactor(2)")
    load("deviceIterations(1)", options=options)
    assert (options.device_iterations, options.replication_factor) == (1, 2)


def test_calls_can_be_chained_and_nested(load):
    options = load(
        "deviceIterations(3).replicationFactor(2).Training.gradientAccumulation(5)",
        "TensorLocations.setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage(False).minElementsForOffChip(2))",
        "setExecutionStrategy(poptorch.PipelinedExecution(poptorch.Stage('A', 'B').ipu(1), 'C'))",
        "connectionType(poptorch.enums.ConnectionType.OnDemand)",
    )
    assert (options.device_iterations, options.replication_factor, options.Training.gradient_accumulation) == (3, 2, 5)
    assert options.TensorLocations.location_weight == {"onChip": 0, "minElementsForOffChip": 2}
    assert repr(options._execution_strategy) == "PipelinedExecution(Stage('A', 'B').ipu(1), Stage('C'))"
    assert options.connection_type == enums.ConnectionType.OnDemand


def test_syntax_error_names_class_line_file_and_text(load):
    with pytest.raises(ConfigFileError) as caught:
        load("deviceIterations(1)", "", "# comment", "outputMode(poptorch.OutputMode.All")
    text = str(caught.value)
    assert text.startswith("SyntaxError at line 2 of tmp.conf: ") and "\n> options.outputMode(poptorch.OutputMode.All" in text
    assert "line 4 of the file with blank lines and comments" in text


def test_nothing_is_applied_when_a_line_cannot_be_parsed(load):
    options = Options()
    with pytest.raises(ConfigFileError):
        load("deviceIterations(7)", "outputMode(", options=options)
    assert options.device_iterations == 1


@pytest.mark.parametrize(
    "line, detail",
    [
        ("deviceIterations", "a line is a call of a setter"),
        ("device_iterations = 3", "a line is a call of a setter"),
        ("deviceIterations(len('abc'))", "len cannot be called in an options file"),
        ("modelName(__import__('os').getcwd())", "cannot be called in an options file"),
        ("deviceIterations(poptorch.Options)", "is no member of one of PopTorch's enumerations"),
        ("outputMode(poptorch.OutputMode.Some)", "poptorch.OutputMode.Some is no member"),
        ("modelName(f'{1}')", "JoinedStr is not allowed"),
        ("deviceIterations([x for x in (1,)][0])", "is not allowed in an options file"),
        ("modelName('a' * 1000000000)", "arithmetic is for numbers only, given 'a'"),
        ("set(**{'device_iterations': 3})", r"\*\* is not allowed"),
        ("setExecutionStrategy(poptorch.PipelinedExecution().__class__())", "cannot be called"),
        ("modelName(x)", "Name is not allowed"),
    ],
)
def test_anything_but_setters_with_simple_arguments_is_refused(load, line, detail):
    with pytest.raises(ConfigFileError, match=detail):
        load(line)


def test_no_code_runs(load, tmp_path):
    target = tmp_path / "made"
    for line in (
        f"modelName(open({str(target)!r}, 'w').name)",
        f"deviceIterations(poptorch.options.os.mkdir({str(target)!r}))",
        f"deviceIterations((lambda: open({str(target)!r}, 'w'))())",
        f"__class__.__init__.__globals__['os'].mkdir({str(target)!r})",
    ):
        with pytest.raises((ConfigFileError, AttributeError)):
            load(line)
    assert not target.exists()


def test_errors_of_setters_pass_through(load):
    with pytest.raises(AssertionError, match="Unexpected type"):
        load("deviceIterations('3')")
    with pytest.raises(AttributeError, match="Unknown option 'deviceIteration': Options has no setter of this name"):
        load("deviceIteration(3)")
    with pytest.raises(AttributeError, match="Unknown group of options in 'Trainings.gradientAccumulation'"):
        load("Trainings.gradientAccumulation(3)")


def test_dtypes_are_torchs_own(load):
    assert load("Precision.setPartialsType(torch.float32)")._Popart.options["partialsTypeMatMuls"] == "float"
