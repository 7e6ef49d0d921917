"""PopTorch's Options for a compiled step: the user's, completed by what the Trainer's flags say. The user's own object is not changed."""

from typing import Any, Optional, Tuple

import torch

from lightning_ipu._lightning import Lightning
from lightning_ipu.loading.cutting import Sizes


def sizes_of(
    training_opts: Any,
    inference_opts: Any,
    *,
    devices: int,
    ipus: int,
    accumulate: int,
    device_iterations: int,
    varies: bool = False,
    lightning: Lightning,
) -> Tuple[Sizes, Sizes]:
    """D, G and R in training and elsewhere.

    Args:
        training_opts, inference_opts: the user's.
        devices: IPUs of the Trainer.
        ipus: IPUs of one replica of the model.
        accumulate: Trainer's accumulate_grad_batches.
        device_iterations: IPUStrategy's.
        varies: ``accumulate`` is the least common multiple of what a schedule has for different epochs.
        lightning: whose errors to raise.

    Raises:
        MisconfigurationException: options that contradict the Trainer's flags.
    """
    replicas = _replicas(training_opts, devices, ipus, lightning)
    if inference_opts.replication_factor not in (1, replicas):
        raise lightning.misconfiguration(
            f"inference_opts.replicationFactor({inference_opts.replication_factor}) differs from the {replicas} replicas of training on "
            f"Trainer(devices={devices}). Leave it out, or give {replicas}."
        )
    accumulated = _agreed(
        "Training.gradientAccumulation",
        training_opts.Training.gradient_accumulation,
        accumulate,
        f"Trainer(accumulate_grad_batches={accumulate})",
        lightning,
    )
    if inference_opts.Training.gradient_accumulation != 1:
        raise lightning.misconfiguration(
            f"inference_opts.Training.gradientAccumulation({inference_opts.Training.gradient_accumulation}): there are no gradients "
            "outside training. Use deviceIterations in inference_opts instead."
        )
    flag = f"IPUStrategy(device_iterations={device_iterations})"
    in_training = _agreed("training_opts.deviceIterations", training_opts.device_iterations, device_iterations, flag, lightning)
    elsewhere = _agreed("inference_opts.deviceIterations", inference_opts.device_iterations, device_iterations, flag, lightning)
    is_split = devices > replicas
    return (
        Sizes(in_training or 1, accumulated or 1, replicas, None, is_split=is_split, varies=varies),
        Sizes(elsewhere or 1, 1, replicas, None, is_split=is_split),
    )


def _replicas(training_opts: Any, devices: int, ipus: int, lightning: Lightning) -> int:
    if devices % ipus:
        raise lightning.misconfiguration(
            f"Trainer(devices={devices}): the model is split over {ipus} IPUs (the highest ipu_id of its blocks is {ipus - 1}), and "
            f"devices is the number of all IPUs, so it must be a multiple of {ipus}. For one replica use "
            f"devices={1 << (ipus - 1).bit_length()}."
        )
    replicas = int(training_opts.replication_factor)
    if replicas == 1 and ipus == 1:
        return devices
    if replicas == 1:
        return devices // ipus
    if devices % replicas or devices // replicas < ipus:
        allowed = [n for n in range(1, devices + 1) if devices % n == 0 and devices // n >= ipus]
        raise lightning.misconfiguration(
            f"training_opts.replicationFactor({replicas}) does not fit Trainer(devices={devices}): devices is the number of all IPUs, and "
            f"every replica needs the same number of them, at least {ipus}. Allowed factors: {', '.join(str(n) for n in allowed)}."
        )
    return replicas


def _agreed(option: str, in_options: int, in_flags: Optional[int], flag: str, lightning: Lightning) -> Optional[int]:
    """The value of an option that may also be a flag; 1 in either place says nothing."""
    if in_options == 1:
        return in_flags
    if in_flags not in (None, 1, in_options):
        raise lightning.misconfiguration(f"{option}({in_options}) contradicts {flag}. Give the number in one of the two places.")
    return in_options


def check(options: Any, poptorch: Any, lightning: Lightning) -> None:
    """Says what of the user's options cannot be as it is; None are none.

    Raises:
        MisconfigurationException: replicas that share their input.
    """
    if options is None:
        return
    if options.input_group_size != 1:
        raise lightning.misconfiguration(
            f"inputReplicaGrouping({options.input_group_size}, ...): Lightning counts every replica's batch as other samples. Leave it out."
        )
    if not options.defaultOutputMode() and options.output_mode != poptorch.OutputMode.All:
        lightning.warn(
            f"outputMode({poptorch.OutputMode(options.output_mode).name}) is not used: hooks and loggers get the results of all "
            "micro-batches, so compiled steps have outputMode(All)."
        )


def loader_options(given: Any, sizes: Sizes) -> Any:
    """Options for a DataLoader of host batches."""
    options = given.clone()
    options.deviceIterations(sizes.n_iterations)
    options.replicationFactor(sizes.n_replicas)
    options.Training.gradientAccumulation(sizes.n_accumulated)
    return options


def step_options(given: Any, poptorch: Any, cut: Any, *, trains: bool, is_twin: bool) -> Any:
    """Options for one compiled step.

    Args:
        given: the user's.
        poptorch: the PopTorch in use.
        cut: how its host batches are cut.
        trains: whether it updates weights.
        is_twin: whether it holds weights of its own on the memory of the user's.
    """
    options = given.clone()
    options.deviceIterations(cut.n_iterations)
    options.replicationFactor(cut.n_replicas)
    options.Training.gradientAccumulation(cut.n_accumulated if trains else 1)
    options.outputMode(poptorch.OutputMode.All)
    if trains:
        # LR schedulers add attributes to the user's optimizer, which are nothing to warn about.
        options.relaxOptimizerAttributesChecks(True)
    if is_twin and cut.n_replicas > 1:
        # PopTorch knows BatchNorm by its class, which a twin does not have; its statistics are each replica's own anyway.
        options.broadcastBuffers(False)
    if not hasattr(options, "random_seed"):
        # randomSeed also seeds torch on the host, whose random numbers are the user's.
        state = torch.random.get_rng_state()
        options.randomSeed(torch.initial_seed() % 2**31)
        torch.random.set_rng_state(state)
    return options
