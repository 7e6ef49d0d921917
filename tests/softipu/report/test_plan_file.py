import json

import pytest

from softipu.errors import Error
from softipu.report.plan import Plan
from softipu.report.plan_file import read_plan, write_plan
from tests.softipu.report.sample_report import PLAN, fitting


def test_a_plan_survives_the_file(tmp_path):
    write_plan(tmp_path / "plan.json", fitting())
    assert read_plan(tmp_path / "plan.json") == PLAN


def test_a_file_says_what_was_predicted(tmp_path):
    write_plan(tmp_path / "plan.json", fitting())
    predicted = json.loads((tmp_path / "plan.json").read_text())["predicted"]
    assert predicted["system"] == "bow-pod16"
    assert predicted["items_per_second"] == pytest.approx(fitting().cost.items_per_second)


def test_a_short_file_written_by_hand_gets_the_defaults(tmp_path):
    (tmp_path / "plan.json").write_text('{"schema": 1, "stages": [{"begin": "", "ipu": 0}], "replicas": 2}')
    assert read_plan(tmp_path / "plan.json") == Plan(replicas=2)


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "is not JSON"),
        ("[]", "holds a list; it must be an object"),
        ('{"schema": 7}', "schema 7; this version reads schema 1"),
        ('{"schema": 1, "stages": [{"begin": "", "ipu": 0}], "speed": 3}', "unknown keys speed"),
        ('{"schema": 1, "stages": [{"begin": "", "ipu": 1}]}', "without a gap"),
        ('{"schema": 1, "stages": [{"ipu": 0}]}', "a value that a plan cannot have: 'begin'"),
        ('{"schema": 1, "stages": [{"begin": "", "ipu": 0}], "partials": "quarter"}', "'quarter' is not a valid Partials"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path, text, message):
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(Error, match=message) as caught:
        read_plan(path)
    assert "mine.json" in str(caught.value)


def test_a_missing_file_says_how_to_write_one(tmp_path):
    with pytest.raises(Error, match=r"nowhere.json' cannot be read: No such file.*plan --search"):
        read_plan(tmp_path / "nowhere.json")
