"""Reports that planning made, not samples, follow the schema files."""

import json
from pathlib import Path

import fastjsonschema
import pytest
import torch
from torch import nn

import softipu.report
from softipu import poptorch
from softipu.hardware import find_system
from softipu.planner import Space, Subject, report_plan, search_plan
from softipu.poptorch.executor.layout import capture_layout
from softipu.report.plan_file import read_plan, write_plan

FOLDER = Path(softipu.report.__file__).parent
POD = find_system("bow-pod16")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return poptorch.identity_loss(x, "sum")


def subject():
    def layout(n):
        model = Net()
        return capture_layout(poptorch.trainingModel(model, None, torch.optim.Adam(model.parameters())), n, torch.ones(n, 8))

    first = layout(2)
    return Subject("Net", lambda n: layout(n).step, 2, first.optimizer, first.containers), first.plan


def follows(name, data):
    schema = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return fastjsonschema.compile(schema)(data)


@pytest.mark.parametrize("system", ["bow-pod4", "c600"])
def test_report_of_a_plan_follows_its_schema(system):
    what, plan = subject()
    data = json.loads(report_plan(what, plan, find_system(system)).json())
    follows("plan_report.schema.json", data)
    assert data["model"] == "Net" and data["cost"]["fits"] is True


def test_report_and_plan_file_of_a_search_follow_their_schemas(tmp_path):
    what, plan = subject()
    report = search_plan(what, plan, POD, Space(micro_batches=(2, 4), n_ipus=4))
    follows("plan_report.schema.json", json.loads(report.json()))
    write_plan(tmp_path / "plan.json", report)
    follows("plan.schema.json", json.loads((tmp_path / "plan.json").read_text(encoding="utf-8")))
    assert read_plan(tmp_path / "plan.json") == report.plan
