"""Beam search through the output of a network trained with connectionist temporal classification (CTC).

An alignment gives one class to each time step; merging repetitions and dropping blanks makes it a path. The probability of a path is the
sum over its alignments. The search keeps the W most probable beginnings of paths (beams), each with two probabilities: of its alignments
that end in a blank, and of those that end in its last class; only after a blank can the same class come again.

Beams live in tensors of fixed shape, so the search can be captured. Shapes: N batch, W beams, C classes, T time steps, P paths.
"""

from typing import List, NamedTuple

import torch

from softipu.errors import Error

IMPOSSIBLE = float("-inf")


class _Beams(NamedTuple):
    """W beginnings of paths per element of the batch; those that do not exist have probability 0."""

    blank_NW: torch.Tensor
    """Log probability of the alignments that end in a blank."""
    class_NW: torch.Tensor
    """Log probability of those that end in the last class."""
    path_NWT: torch.Tensor
    """Classes, -1 beyond the length."""
    length_NW: torch.Tensor

    @property
    def total_NW(self) -> torch.Tensor:
        return torch.logaddexp(self.blank_NW, self.class_NW)

    @property
    def last_NW(self) -> torch.Tensor:
        """Last class, -1 of an empty path."""
        last = self.path_NWT.gather(2, (self.length_NW - 1).clamp(min=0).unsqueeze(2)).squeeze(2)
        return last.masked_fill(self.length_NW == 0, -1)


def ctc_beam_search_decoder(
    probs: torch.Tensor, lengths: torch.Tensor, blank: int = 0, beam_width: int = 100, top_paths: int = 1
) -> List[torch.Tensor]:
    """The most probable paths.

    Args:
        probs: [T, N, C], log probabilities.
        lengths: [N], integer: time steps of each element.
        blank: class of the blank.
        beam_width: W, beginnings of paths that are kept after each time step.
        top_paths: P, paths that are returned.

    Returns:
        Log probabilities [N, P], the most probable path first; lengths of the paths [N, P]; paths [N, P, T], filled up with ``blank``.
        When there are fewer than P paths, the others have log probability -inf.

    Raises:
        Error: arguments of other types or shapes, or numbers out of range.
    """
    _check_arguments(probs, lengths, blank, beam_width, top_paths)
    log_TNC = probs.detach() if probs.dtype == torch.float64 else probs.detach().to(torch.float32)
    beams = _start(log_TNC, beam_width)
    for step in range(log_TNC.shape[0]):
        advanced = _advanced(beams, log_TNC[step], blank)
        is_running_N1 = (lengths > step).unsqueeze(1)
        beams = _Beams(
            torch.where(is_running_N1, advanced.blank_NW, beams.blank_NW),
            torch.where(is_running_N1, advanced.class_NW, beams.class_NW),
            torch.where(is_running_N1.unsqueeze(2), advanced.path_NWT, beams.path_NWT),
            torch.where(is_running_N1, advanced.length_NW, beams.length_NW),
        )
    total_NP, best_NP = beams.total_NW.topk(top_paths, dim=1)
    path_NPT = beams.path_NWT.gather(1, best_NP.unsqueeze(2).expand(-1, -1, log_TNC.shape[0]))
    length_NP = beams.length_NW.gather(1, best_NP)
    return [total_NP.to(probs.dtype), length_NP.to(torch.int32), path_NPT.masked_fill(path_NPT < 0, blank).to(torch.int32)]


def _check_arguments(probs: torch.Tensor, lengths: torch.Tensor, blank: int, beam_width: int, top_paths: int) -> None:
    name = "ctc_beam_search_decoder"
    for what, value in (("probs", probs), ("lengths", lengths)):
        if not isinstance(value, torch.Tensor):
            raise Error(f"{name}: {what} must be a torch.tensor argument. {type(value)} is not supported.")
    if probs.dim() != 3 or not probs.dtype.is_floating_point:
        raise Error(f"{name}: probs must be floating point of shape [time, batch, classes], given {probs.dtype} of {list(probs.shape)}.")
    if list(lengths.shape) != [probs.shape[1]] or lengths.dtype.is_floating_point:
        raise Error(f"{name}: lengths must be {probs.shape[1]} integers, one per element of the batch, given {list(lengths.shape)}.")
    if not 0 <= blank < probs.shape[2]:
        raise Error(f"{name}: blank is {blank}; it must be one of the {probs.shape[2]} classes, from 0.")
    if not 1 <= top_paths <= beam_width:
        raise Error(f"{name}: top_paths is {top_paths} and beam_width {beam_width}; there must be 1 path or more and no more than beams.")


def _start(log_TNC: torch.Tensor, beam_width: int) -> _Beams:
    n_steps, n_batch, _ = log_TNC.shape
    impossible_NW = torch.full((n_batch, beam_width), IMPOSSIBLE, dtype=log_TNC.dtype, device=log_TNC.device)
    only_first_W = torch.arange(beam_width, device=log_TNC.device) == 0
    return _Beams(
        impossible_NW.masked_fill(only_first_W, 0.0),
        impossible_NW,
        torch.full((n_batch, beam_width, n_steps), -1, dtype=torch.int64, device=log_TNC.device),
        torch.zeros((n_batch, beam_width), dtype=torch.int64, device=log_TNC.device),
    )


def _advanced(beams: _Beams, log_NC: torch.Tensor, blank: int) -> _Beams:
    """The most probable beams after one more time step."""
    n_batch, n_classes = log_NC.shape
    n_beams = beams.total_NW.shape[1]
    classes_C = torch.arange(n_classes, device=log_NC.device)
    last_NW = beams.last_NW
    is_last_NWC = last_NW.unsqueeze(2) == classes_C

    # A beam stays as it is with a blank, or when its last class is repeated.
    blank_NW = beams.total_NW + log_NC[:, blank : blank + 1]
    repeated_NW = log_NC.gather(1, last_NW.clamp(min=0))
    class_NW = torch.where(beams.length_NW > 0, beams.class_NW + repeated_NW, IMPOSSIBLE)

    # Or it grows by a class, by its last one only after a blank.
    before_NWC = torch.where(is_last_NWC, beams.blank_NW.unsqueeze(2), beams.total_NW.unsqueeze(2))
    grown_NWC = (before_NWC + log_NC.unsqueeze(1)).masked_fill(classes_C == blank, IMPOSSIBLE)

    # When it becomes a path that another beam is already, the two are one.
    grows_into_NVW = _grows_into(beams)
    grown_by_last_NVW = grown_NWC.gather(2, last_NW.clamp(min=0).unsqueeze(1).expand(-1, n_beams, -1))
    joined_NW = torch.where(grows_into_NVW, grown_by_last_NVW, IMPOSSIBLE).logsumexp(1)
    class_NW = torch.logaddexp(class_NW, joined_NW)
    is_joined_NVC = torch.matmul(grows_into_NVW.to(log_NC.dtype), is_last_NWC.to(log_NC.dtype)) > 0
    grown_NWC = grown_NWC.masked_fill(is_joined_NVC, IMPOSSIBLE)

    candidates = torch.cat([torch.logaddexp(blank_NW, class_NW), grown_NWC.reshape(n_batch, -1)], 1)
    score_NW, choice_NW = candidates.topk(n_beams, dim=1)
    stays_NW = choice_NW < n_beams
    growth_NW = (choice_NW - n_beams).clamp(min=0)
    source_NW = torch.where(stays_NW, choice_NW, growth_NW.div(n_classes, rounding_mode="floor"))
    path_NWT = beams.path_NWT.gather(1, source_NW.unsqueeze(2).expand(-1, -1, beams.path_NWT.shape[2]))
    length_NW = beams.length_NW.gather(1, source_NW)
    positions_T = torch.arange(path_NWT.shape[2], device=log_NC.device)
    is_new_NWT = (positions_T == length_NW.unsqueeze(2)) & ~stays_NW.unsqueeze(2)
    return _Beams(
        torch.where(stays_NW, blank_NW.gather(1, source_NW), IMPOSSIBLE),
        torch.where(stays_NW, class_NW.gather(1, source_NW), score_NW),
        torch.where(is_new_NWT, growth_NW.remainder(n_classes).unsqueeze(2), path_NWT),
        torch.where(stays_NW, length_NW, length_NW + 1),
    )


def _grows_into(beams: _Beams) -> torch.Tensor:
    """[N, V, W]: whether beam v and one more class is beam w."""
    positions_T = torch.arange(beams.path_NWT.shape[2], device=beams.path_NWT.device)
    parent_NWT = beams.path_NWT.masked_fill(positions_T == (beams.length_NW - 1).unsqueeze(2), -1)
    is_parent_NVW = (beams.path_NWT.unsqueeze(2) == parent_NWT.unsqueeze(1)).all(3)
    exists_NW = beams.total_NW > IMPOSSIBLE
    # The parent of an empty path would be itself.
    return is_parent_NVW & exists_NW.unsqueeze(2) & (exists_NW & (beams.length_NW > 0)).unsqueeze(1)
