"""The report for a terminal."""

import re
from dataclasses import replace

from softipu.report.cost_report import MemoryCategory, Phase
from softipu.report.estimate import Estimate
from softipu.report.text import does_not_fit_text, family_lines, memory_lines, stage_lines, time_lines
from tests.softipu.report.sample_report import cost, fitting, overflowing


def columns(lines):
    """Numbers of a table: rows without rules, headers and the words at the end."""
    return [
        [float(cell.replace(",", "")) for cell in re.findall(r"(?<![\w.])\d[\d,.]*(?!\S*%)", line)]
        for line in lines
        if re.match(r"\w", line)
    ]


def test_text_of_a_plan_that_fits(golden):
    golden(fitting().text(), "fits.txt")


def test_text_of_a_plan_that_overflows(golden):
    golden(overflowing().text(), "overflows.txt")


def test_memory_adds_up_to_the_totals_shown():
    lines = memory_lines(cost())
    ipus = [row[:12] for row in columns([line.split("stage")[0] for line in lines[3:7]])]
    for ipu, row in enumerate(ipus):
        assert row[0] == ipu
        assert abs(sum(row[1:11]) - row[11]) <= 0.5 * 11
    (all_of_them,) = columns([lines[8].replace("all", "9 9")])
    for i in range(1, 12):
        assert abs(sum(row[i] for row in ipus) - all_of_them[i + 1]) <= 0.5 * 5


def test_phases_add_up_to_the_time_shown():
    lines = [re.sub(r"\S+ %", "", line) for line in time_lines(cost())[3:-1]]
    numbers = [row[0] for row in columns(lines)]
    assert abs(sum(numbers[:-1]) - numbers[-1]) <= 0.5 * len(numbers)


def test_shares_of_phases_add_up_to_the_whole():
    shares = [float(share) for share in re.findall(r"(\d+\.\d) %$", "\n".join(time_lines(cost())[:-1]), flags=re.M)]
    assert shares[-1] == 100.0
    assert abs(sum(shares[:-1]) - 100.0) <= 0.05 * len(shares)


def test_stages_add_up_to_the_total_shown():
    rows = columns([line.split("encoder")[0].replace("(start)", "") for line in stage_lines(cost())[3:7]])
    (total,) = columns([stage_lines(cost())[8].replace("all", "0  0")])
    assert abs(sum(row[7] for row in rows) - total[7]) <= 0.05 * 5


def test_small_families_are_put_together():
    report = cost()
    many = tuple(replace(row, family=f"{row.family} {i % 5}") for i, row in enumerate(report.modules))
    lines = family_lines(replace(report, modules=many))
    assert re.search(r"^\d+ others ", "\n".join(lines), flags=re.M)
    assert len(lines) == 2 + 1 + 12 + 1 + 2


def test_the_message_names_the_ipu_its_need_and_what_is_on_it():
    text = does_not_fit_text(overflowing())
    assert text.startswith(
        "IPU 0 needs 2,399 MiB; a Bow has 897 MiB (stage 0: embeddings, encoder layers 0 to 2).\n  activations stashed    1,188 MiB\n"
    )
    assert "IPUs 1, 2, 3 do not fit either." in text
    assert text.endswith("Try, cheapest first: recompute stage 0; micro-batch 4 -> 2.")


def test_a_full_tile_on_an_ipu_with_room_is_explained():
    report = overflowing()
    first = cost().memory[0]
    full_tile = replace(first, worst_tile_bytes=700 * 1024.0)
    text = does_not_fit_text(replace(report, cost=replace(report.cost, memory=(full_tile,)), remedies=()))
    assert "IPU 0 needs 700 KiB on its fullest tile; a tile of a Bow has 624 KiB" in text
    assert "All its tiles together hold 783 MiB of 897 MiB" in text
    assert "lightning-ipu plan --search" in text


def test_categories_that_hold_nothing_have_no_column():
    report = cost()
    without = tuple(
        replace(m, by_category={c: e for c, e in m.by_category.items() if c is not MemoryCategory.STACK}) for m in report.memory
    )
    assert "stack" not in memory_lines(replace(report, memory=without))[1]


def test_what_spends_most_of_its_time_on_the_host_is_told_what_helps():
    told = "Most of the time goes to the host."
    assert not any(line.startswith(told) for line in time_lines(cost()))
    waiting = {**cost().time.by_phase, Phase.HOST_IO: Estimate(fitted=10 * cost().time.total.total)}
    lines = time_lines(replace(cost(), time=replace(cost().time, by_phase=waiting)))
    assert lines[-1].startswith(told) and "device_iterations" in lines[-1]
