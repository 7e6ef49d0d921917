"""The update as a graph: its inputs, what is in it, and who can run it."""

import pytest
import torch

from softipu.capture.update import build_update, hyper_values, new_state, read_optimizer
from softipu.poptorch import optim
from softipu.runtime.interpreter import compile_graph

RULES = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, dampening=0.1),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9),
    "LAMB": lambda p: optim.LAMB(p, lr=0.01),
}
each_rule = pytest.mark.parametrize("make", RULES.values(), ids=list(RULES))


def _weights():
    torch.manual_seed(0)
    return {"fc.weight": torch.randn(3, 2), "fc.bias": torch.randn(3)}


def _numbers(values, form):
    return [torch.tensor(v, dtype=torch.float64) for v in values] if form == "elementwise" else list(values)


def test_inputs_are_described_in_the_order_of_the_call():
    w = _weights()
    optimizer = torch.optim.Adam(list(w.values()), weight_decay=0.1)
    update = build_update(read_optimizer(optimizer, w), w, scaled=True, clipped=True)
    assert [(entry.role, entry.name) for entry in update.inputs] == [
        ("parameter", "fc.weight"),
        ("parameter", "fc.bias"),
        ("gradient", "fc.weight"),
        ("gradient", "fc.bias"),
        ("state", "Accl1___fc.weight"),
        ("state", "Accl1___fc.bias"),
        ("state", "Accl2___fc.weight"),
        ("state", "Accl2___fc.bias"),
        ("state", "Step___fc.weight"),
        ("state", "Step___fc.bias"),
        *[("hyper", name) for name in ("lr_0", "beta1_0", "beta2_0", "eps_0", "weight_decay_0", "gradient_scale", "max_grad_norm")],
    ]
    assert update.hyper == ("lr_0", "beta1_0", "beta2_0", "eps_0", "weight_decay_0")
    placeholders = [node for node in update.graph_module.graph.nodes if node.op == "placeholder"]
    assert [node.meta["input"] for node in placeholders] == list(update.inputs)
    assert [(entry.shape, entry.dtype) for entry in update.inputs[:2]] == [((3, 2), torch.float32), ((3,), torch.float32)]


@each_rule
def test_no_number_of_the_optimizer_is_a_constant_of_the_graph(form, make):
    w = _weights()
    optimizer = make(list(w.values()))
    spec = read_optimizer(optimizer, w)
    code = build_update(spec, w, form=form).graph_module.code
    # 1, 0 and -1 belong to the formulas.
    assert not [value for value in hyper_values(optimizer, spec) if value not in (0.0, 1.0, -1.0) and repr(value) in code]


@each_rule
def test_the_interpreter_runs_it(form, make):
    results = []
    for engine in (lambda graph_module: graph_module, compile_graph):
        w = _weights()
        optimizer = make(list(w.values()))
        spec = read_optimizer(optimizer, w)
        update = build_update(spec, w, form=form, scaled=True, clipped=True)
        state, run = new_state(update, w), engine(update.graph_module)
        for i in range(3):
            gradients = [torch.full_like(t, 0.1 * (i + 1)) for t in w.values()]
            with torch.no_grad():
                run(*w.values(), *gradients, *state.values(), *_numbers([*hyper_values(optimizer, spec), 0.5, 1.0], form))
        results.append([*w.values(), *state.values()])
    assert all(torch.equal(a, b) for a, b in zip(*results))


@pytest.mark.parametrize("name", ["SGD", "AdamW", "LAMB"])
def test_the_fused_form_makes_no_new_tensors_of_the_weights_size(name):
    """Given back to the system after each update, they would cost more in page faults than the arithmetic takes."""
    from torch.utils._python_dispatch import TorchDispatchMode

    made = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            for t in result if isinstance(result, (list, tuple)) else [result]:
                if isinstance(t, torch.Tensor) and t.numel() >= 64 and t.data_ptr() not in known:
                    made.append(str(func))
            return result

    w = {"a": torch.randn(8, 8), "b": torch.randn(64)}
    optimizer = RULES[name](list(w.values()))
    spec = read_optimizer(optimizer, w)
    update = build_update(spec, w, scaled=True, clipped=True, dense_gradients=True)
    inputs = [*w.values(), torch.randn(8, 8), torch.randn(64), *new_state(update, w).values()]
    known = {t.data_ptr() for t in inputs}
    with torch.no_grad(), Watch():
        update.graph_module(*inputs, *hyper_values(optimizer, spec), 0.5, 1.0)
    assert made == []


def test_one_kernel_and_one_count_is_all_of_adam_where_torch_has_the_kernel():
    w = _weights()
    update = build_update(read_optimizer(torch.optim.AdamW(list(w.values())), w), w, dense_gradients=True)
    calls = [str(node.target) for node in update.graph_module.graph.nodes if node.op == "call_function"]
    if torch.__version__.startswith("2.0."):
        assert "aten._foreach_addcdiv_.ScalarList" in calls
    else:
        assert calls == ["aten._foreach_add_.Scalar", "aten._fused_adamw_.default"]


def test_the_elementwise_form_writes_only_at_its_end():
    w = _weights()
    update = build_update(read_optimizer(torch.optim.Adam(list(w.values())), w), w, form="elementwise", scaled=True, clipped=True)
    names = [node.target._schema.name for node in update.graph_module.graph.nodes if node.op == "call_function"]
    first = names.index("aten::copy_")
    assert set(names[first:]) == {"aten::copy_"}
    assert len(names[first:]) == 8, "two weights with three states each"
    assert not [name for name in names[:first] if name.endswith("_")]


def test_a_parameter_that_is_not_given_keeps_its_value():
    w = _weights()
    optimizer = torch.optim.AdamW(list(w.values()), lr=0.1, weight_decay=0.5)
    spec = read_optimizer(optimizer, w)
    update = build_update(spec, {"fc.bias": w["fc.bias"]})
    assert update.names("parameter") == ("fc.bias",)
    before = w["fc.weight"].clone()
    state = new_state(update, w)
    with torch.no_grad():
        update.graph_module(w["fc.bias"], torch.ones(3), *state.values(), *hyper_values(optimizer, spec))
    assert torch.equal(before, w["fc.weight"])


def test_a_step_without_trained_parameters_has_an_update_that_does_nothing(form):
    w = _weights()
    optimizer = torch.optim.Adam(list(w.values()))
    spec = read_optimizer(optimizer, w)
    update = build_update(spec, {}, form=form, scaled=True, clipped=True)
    assert update.names("hyper") == ("lr_0", "beta1_0", "beta2_0", "eps_0", "gradient_scale", "max_grad_norm")
    assert update.graph_module(*_numbers([*hyper_values(optimizer, spec), 0.5, 1.0], form)) is None


def test_unknown_form_is_refused():
    w = _weights()
    with pytest.raises(ValueError, match="Unknown form 'fast' of an update; allowed are fused and elementwise"):
        build_update(read_optimizer(torch.optim.Adam(list(w.values())), w), w, form="fast")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_inductor_compiles_nothing_anew_for_another_learning_rate(name):
    import torch._dynamo  # torch 2.0 has it on demand only
    from torch._inductor.compile_fx import compile_fx

    compiled_graphs = []

    def inductor(graph_module, example_inputs):
        compiled_graphs.append(graph_module)
        return compile_fx(graph_module, example_inputs)

    torch._dynamo.reset()
    w, expected = _weights(), _weights()
    optimizer = RULES[name](list(w.values()))
    spec = read_optimizer(optimizer, w)
    update = build_update(spec, w, form="elementwise", scaled=True, clipped=True)
    state, expected_state = new_state(update, w), new_state(update, w)
    compiled = torch.compile(update.graph_module, backend=inductor, fullgraph=True)
    counts = []
    for lr in (0.1, 0.1, 0.02, 0.003):  # twice the first: Inductor's own first run may change what Dynamo guards
        optimizer.param_groups[0]["lr"] = lr
        numbers = _numbers([*hyper_values(optimizer, spec), 0.5, 1.0], "elementwise")
        with torch.no_grad():
            compiled(*w.values(), torch.ones(3, 2), torch.ones(3), *state.values(), *numbers)
            update.graph_module(*expected.values(), torch.ones(3, 2), torch.ones(3), *expected_state.values(), *numbers)
        counts.append(len(compiled_graphs))
    assert counts[0] >= 1
    assert counts[1] == counts[-1]
    for name in w:
        torch.testing.assert_close(w[name], expected[name], rtol=1e-6, atol=1e-6)
