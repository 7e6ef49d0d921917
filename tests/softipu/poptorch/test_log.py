"""PopTorch's logger: levels, destination, form of a line."""

import re

import pytest

from softipu.poptorch import log


@pytest.fixture(autouse=True)
def default_logger():
    yield
    log.configure({})


def write_all():
    log.logger.debug("a debug line")
    log.logger.info("an info line")
    log.logger.warning("a warning line")
    log.logger.error("an error line")
    log.logger.critical("a critical line")


@pytest.mark.parametrize(
    "level, lowest",
    [
        ("TRACE", "debug"), ("TRACE_ALL", "debug"), ("DEBUG", "debug"), ("DEBUG_IR", "debug"), ("INFO", "info"), ("WARN", "warning"),
        ("ERR", "error"), ("OFF", None), (0, "debug"), (1, "debug"), (2, "info"), (3, "warning"), (4, "error"),
    ],
)  # fmt: skip
def test_levels_show_lines_from_theirs_upwards(level, lowest, capsys):
    order = ["debug", "info", "warning", "error", "critical"]
    log.setLogLevel(level)
    write_all()
    seen = re.findall(r"\[(\w+)\] an? \w+ line", capsys.readouterr().err)
    assert seen == (order[order.index(lowest) :] if lowest else [])


@pytest.mark.parametrize("level", ["WARNING", "debug", 5, -1, True, None])
def test_unknown_levels_are_value_errors(level):
    with pytest.raises(
        ValueError, match="Unknown log level: .* Valid values are DEBUG, DEBUG_IR, ERR, INFO, OFF|Invalid log level integer: .*0 .* to 4"
    ):
        log.setLogLevel(level)


def test_lines_carry_time_name_and_lower_case_level(capsys):
    log.logger.warning("text %s", 3)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r"\[\d\d:\d\d:\d\d\.\d\d\d\] \[poptorch::python\] \[warning\] text 3\n", captured.err)


def test_a_line_does_not_change_the_record_for_others(caplog):
    log.logger.warning("text")
    assert caplog.records[0].levelname == "WARNING"


def test_warnings_are_the_default_threshold(capsys):
    log.configure({})
    log.logger.info("hidden")
    log.logger.warning("shown")
    assert "hidden" not in capsys.readouterr().err


@pytest.mark.parametrize("value", ["DEBUG", "1"])
def test_level_comes_from_the_environment(capsys, value):
    log.configure({"POPTORCH_LOG_LEVEL": value})
    log.logger.debug("shown")
    assert "shown" in capsys.readouterr().err


def test_wrong_level_in_the_environment_names_the_variable():
    with pytest.raises(ValueError, match="Environment variable POPTORCH_LOG_LEVEL: Unknown log level: LOUD"):
        log.configure({"POPTORCH_LOG_LEVEL": "LOUD"})


def test_destination_standard_output(capsys):
    log.configure({"POPTORCH_LOG_DEST": "stdout"})
    log.logger.warning("once")
    captured = capsys.readouterr()
    assert captured.err == "" and captured.out.count("once") == 1


def test_destination_file(capsys, tmp_path):
    file = tmp_path / "poptorch.log"
    log.configure({"POPTORCH_LOG_DEST": str(file)})
    log.logger.warning("to the file")
    assert capsys.readouterr().err == "" and file.read_text().endswith("[warning] to the file\n")


def test_configuring_again_leaves_handlers_of_others(capsys):
    other = log.logging.NullHandler()
    log.logger.addHandler(other)
    try:
        log.configure({})
        log.configure({})
        log.logger.warning("once")
        assert other in log.logger.handlers and capsys.readouterr().err.count("once") == 1
    finally:
        log.logger.removeHandler(other)
