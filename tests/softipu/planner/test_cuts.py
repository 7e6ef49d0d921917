from softipu.graph.origin import Origin
from softipu.planner.cuts import Cut, cut_points, repeated_modules


def origins(*paths):
    return [Origin(path) for path in paths]


def paths(*forward):
    return [cut.path for cut in cut_points(origins(*forward))]


def test_a_stage_may_begin_at_every_module():
    assert cut_points(origins("embed", "layer.0.mix", "layer.0.out", "layer.1.mix", "head")) == (
        Cut("", 0),
        Cut("layer", 1),
        Cut("layer.0.out", 2),
        Cut("layer.1", 3),
        Cut("head", 4),
    )


def test_of_modules_that_begin_together_the_outermost_counts():
    assert paths("a", "b.c.d", "b.e") == ["", "b", "b.e"]


def test_a_module_that_is_called_again_later_is_left_out():
    assert paths("embed", "mix", "norm", "mix", "head") == ["", "norm", "head"]


def test_a_module_that_is_called_twice_in_a_row_is_one_place():
    assert paths("embed", "mix", "mix", "head") == ["", "mix", "head"]


def test_ops_of_the_parent_between_children_belong_to_the_stage_before():
    assert cut_points(origins("a", "", "b")) == (Cut("", 0), Cut("b", 2))
    assert [cut.first for cut in cut_points(origins("net.a", "net", "net.b", "net"))] == [0, 2]


def test_nothing_runs():
    assert cut_points([]) == (Cut("", 0),)


def test_layers_are_the_members_of_the_longest_lists():
    forward = origins("embed.0", "encoder.layer.0.mlp.0", "encoder.layer.0.mlp.1", "encoder.layer.1.mlp.0", "encoder.layer.2.mlp.1", "head")
    assert repeated_modules(forward) == ("encoder.layer.0", "encoder.layer.1", "encoder.layer.2")


def test_the_first_layer_counts_when_nothing_runs_before_it():
    assert repeated_modules(origins("0", "1", "2")) == ("0", "1", "2")


def test_a_model_without_lists_has_no_layers():
    assert repeated_modules(origins("a.b", "c")) == ()
