"""What is written as JSON is what the schema files say, and no more."""

import json
from dataclasses import fields
from pathlib import Path

import fastjsonschema
import pytest

import softipu.report
from softipu.report.cost_report import MemoryCategory, Phase
from softipu.report.plan import Plan
from softipu.report.plan_file import write_plan
from tests.softipu.report.sample_report import fitting, overflowing

FOLDER = Path(softipu.report.__file__).parent


def schema(name):
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("report", [fitting(), overflowing()], ids=["fits", "overflows"])
def test_a_report_follows_its_schema(report):
    fastjsonschema.compile(schema("plan_report.schema.json"))(json.loads(report.json()))


def test_the_schema_refuses_what_a_report_never_has():
    check = fastjsonschema.compile(schema("plan_report.schema.json"))
    data = json.loads(fitting().json())
    data["cost"]["memory"][0]["by_category"]["nonsense"] = data["cost"]["memory"][0]["total"]
    with pytest.raises(fastjsonschema.JsonSchemaException, match="by_category"):
        check(data)


def test_a_plan_file_follows_its_schema(tmp_path):
    write_plan(tmp_path / "plan.json", fitting())
    fastjsonschema.compile(schema("plan.schema.json"))(json.loads((tmp_path / "plan.json").read_text()))


def test_the_schemas_know_every_category_phase_and_field():
    definitions = schema("plan_report.schema.json")["definitions"]
    assert definitions["memory"]["properties"]["by_category"]["propertyNames"]["enum"] == [c.value for c in MemoryCategory]
    assert definitions["phases"]["propertyNames"]["enum"] == [p.value for p in Phase]
    assert list(definitions["plan"]["properties"]) == ["schema", *(f.name for f in fields(Plan))]
    assert list(schema("plan.schema.json")["properties"]) == [*definitions["plan"]["properties"], "predicted"]
