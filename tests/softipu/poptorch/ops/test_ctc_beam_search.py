"""CTC beam search against an enumeration of all alignments and against a search written with dictionaries."""

import collections
import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from softipu.errors import Error
from softipu.poptorch.ops.ctc_beam_search import ctc_beam_search_decoder


def _path_of(alignment, blank):
    return tuple(kind for kind, _ in itertools.groupby(alignment) if kind != blank)


def _all_paths(log_TC, blank):
    """Probability of every path, by going through every alignment."""
    probabilities = collections.defaultdict(float)
    for alignment in itertools.product(range(len(log_TC[0])), repeat=len(log_TC)):
        probabilities[_path_of(alignment, blank)] += math.exp(sum(log_TC[t][kind] for t, kind in enumerate(alignment)))
    return sorted(((math.log(p), path) for path, p in probabilities.items()), reverse=True)


def _dictionary_search(log_TC, blank, beam_width):
    beams = {(): (1.0, 0.0)}
    for log_C in log_TC:
        grown = collections.defaultdict(lambda: [0.0, 0.0])
        for path, (blank_p, class_p) in beams.items():
            grown[path][0] += (blank_p + class_p) * math.exp(log_C[blank])
            for kind, log_p in enumerate(log_C):
                if kind == blank:
                    continue
                if path and kind == path[-1]:
                    grown[path][1] += class_p * math.exp(log_p)
                    grown[path + (kind,)][1] += blank_p * math.exp(log_p)
                else:
                    grown[path + (kind,)][1] += (blank_p + class_p) * math.exp(log_p)
        beams = dict(sorted(grown.items(), key=lambda beam: -sum(beam[1]))[:beam_width])
    return sorted(((math.log(sum(p)), path) for path, p in beams.items() if sum(p) > 0), reverse=True)


def _decoded(result, number):
    scores, lengths, paths = result
    return [(float(score), tuple(path[:length].tolist())) for score, length, path in zip(scores[number], lengths[number], paths[number])]


def _random_log_probs(seed, n_steps, n_batch, n_classes):
    return torch.randn(n_steps, n_batch, n_classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).log_softmax(2)


def _assert_same(found, expected):
    assert [path for _, path in found] == [path for _, path in expected]
    assert [score for score, _ in found] == pytest.approx([score for score, _ in expected])


@given(n_steps=st.integers(1, 5), n_classes=st.integers(2, 4), blank=st.integers(0, 3), seed=st.integers(0, 10**6))
def test_a_wide_search_finds_the_exact_probabilities_of_all_paths(n_steps, n_classes, blank, seed):
    blank = min(blank, n_classes - 1)
    log_probs = _random_log_probs(seed, n_steps, 2, n_classes)
    for number in range(2):
        expected = _all_paths(log_probs[:, number].tolist(), blank)
        n_paths = len(expected)
        result = ctc_beam_search_decoder(log_probs, torch.tensor([n_steps, n_steps]), blank, beam_width=n_paths + 3, top_paths=n_paths)
        _assert_same(_decoded(result, number), expected)


@given(n_steps=st.integers(1, 9), n_classes=st.integers(2, 6), beam_width=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_a_narrow_search_equals_one_with_dictionaries(n_steps, n_classes, beam_width, seed):
    log_probs = _random_log_probs(seed, n_steps, 3, n_classes)
    lengths = torch.tensor([n_steps, max(1, n_steps - 2), 1])
    result = ctc_beam_search_decoder(log_probs, lengths, 0, beam_width, beam_width)
    for number in range(3):
        expected = _dictionary_search(log_probs[: int(lengths[number]), number].tolist(), 0, beam_width)
        found = [entry for entry in _decoded(result, number) if entry[0] > -math.inf]
        _assert_same(found, expected)


def test_a_path_that_was_dropped_comes_back_as_one_beam():
    """Path A falls out of two beams while AB stays, and is grown anew later; it must then be one with what AB grew from."""
    a, b = 1, 2
    steps = [{a: 0.6, b: 0.3, 0: 0.1}, {b: 0.9, a: 0.02, 0: 0.08}, {a: 0.45, 0: 0.5, b: 0.05}, {b: 0.4, a: 0.3, 0: 0.3}]
    log_probs = torch.tensor([[math.log(step[kind]) for kind in range(3)] for step in steps], dtype=torch.float64).unsqueeze(1)
    for beam_width in (1, 2, 3):
        result = ctc_beam_search_decoder(log_probs, torch.tensor([4]), 0, beam_width, beam_width)
        _assert_same(_decoded(result, 0), _dictionary_search(log_probs[:, 0].tolist(), 0, beam_width))


def test_shapes_types_and_defaults():
    log_probs = torch.randn(9, 3, 10)
    lengths = torch.randint(5, 9, (3,), dtype=torch.int32)
    scores, path_lengths, paths = ctc_beam_search_decoder(log_probs, lengths)
    assert (scores.shape, path_lengths.shape, paths.shape) == ((3, 1), (3, 1), (3, 1, 9))
    assert (scores.dtype, path_lengths.dtype, paths.dtype) == (torch.float32, torch.int32, torch.int32)
    assert ctc_beam_search_decoder(log_probs.half(), lengths)[0].dtype == torch.float16


def test_paths_are_filled_up_with_the_blank_and_missing_ones_have_no_probability():
    log_probs = torch.tensor([[[0.5, 0.3, 0.2]]]).log()
    scores, lengths, paths = ctc_beam_search_decoder(log_probs, torch.tensor([1]), blank=2, beam_width=5, top_paths=4)
    assert scores.exp().tolist() == [pytest.approx([0.5, 0.3, 0.2, 0.0])]
    assert lengths.tolist()[0][:3] == [1, 1, 0]
    assert paths.tolist()[0][:3] == [[0], [1], [2]]


def test_no_time_steps_give_the_empty_path():
    scores, lengths, _ = ctc_beam_search_decoder(torch.randn(4, 2, 3), torch.tensor([0, 4]), beam_width=3)
    assert (float(scores[0]), int(lengths[0])) == (0.0, 0)


def test_the_search_can_be_captured():
    def search(log_probs, lengths):
        return ctc_beam_search_decoder(log_probs, lengths, 0, 4, 2)

    traced = make_fx(search, tracing_mode="fake")(torch.zeros(6, 2, 5), torch.tensor([6, 6]))
    log_probs, lengths = torch.randn(6, 2, 5), torch.tensor([3, 6])
    for found, expected in zip(traced(log_probs, lengths), search(log_probs, lengths)):
        assert torch.equal(found, expected)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([[0.0]], torch.tensor([1])), r"probs must be a torch.tensor argument. <class 'list'> is not supported"),
        ((torch.zeros(2, 1, 3), [1]), r"lengths must be a torch.tensor argument. <class 'list'> is not supported"),
        (
            (torch.zeros(2, 3), torch.tensor([1])),
            r"must be floating point of shape \[time, batch, classes\], given torch.float32 of \[2, 3\]",
        ),
        ((torch.zeros(2, 2, 3), torch.tensor([1])), r"lengths must be 2 integers"),
        ((torch.zeros(2, 1, 3), torch.tensor([1]), 3), r"blank is 3; it must be one of the 3 classes"),
        ((torch.zeros(2, 1, 3), torch.tensor([1]), 0, 2, 3), r"top_paths is 3 and beam_width 2"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(Error, match=message):
        ctc_beam_search_decoder(*arguments)
