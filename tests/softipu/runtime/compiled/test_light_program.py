"""Programs of Inductor's lose what only their compiler needs, or stay as they are."""

import torch

from softipu.runtime.compiled.light_program import lighten, run_light

HEAD = """import torch
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.select_algorithm import extern_kernels
from torch._inductor.codegen.memory_planning import _align as align
async_compile = AsyncCompile()
double = async_compile.cpp_pybinding(['float*'], '''
lines of C++
''')
async_compile.wait(globals())
del async_compile
"""
TAIL = """
def get_args():
    from torch._dynamo.testing import rand_strided
    return [rand_strided((2, 2), (2, 1))]

if __name__ == "__main__":
    from torch._inductor.wrapper_benchmark import compiled_module_main
"""


class Products:
    mm = torch.mm
    addmm = torch.addmm

    @staticmethod
    def bias_addmm(bias, left, right, *, out=None, alpha=1, beta=1):
        raise AssertionError("the light program has its own")

    @staticmethod
    def unknown(x):
        return x


def lightened(body):
    return lighten(HEAD + body + TAIL, {"extern_kernels": Products}, {"double": "double.so"})


def test_a_light_program_runs_without_the_compiler():
    light = lightened(
        "def call(args):\n    double(args[0])\n    out = torch.empty(2, 2)\n"
        "    extern_kernels.mm(args[0], args[1], out=out)\n    return (out,)\n"
    )
    assert "_inductor" not in light
    assert "_dynamo" not in light
    left, right = torch.ones(2, 2), torch.arange(4.0).reshape(2, 2)
    (result,) = run_light(light, "program.py", {"double": lambda x: x.mul_(2)})([left, right])
    torch.testing.assert_close(result, torch.tensor([[4.0, 8.0], [4.0, 8.0]]))


def test_lines_keep_their_numbers():
    light = lightened("def call(args):\n    return args\n")
    assert light.splitlines().index("def call(args):") == HEAD.count("\n")


def test_a_bias_of_one_row_is_added_to_all():
    light = lightened("def call(args):\n    return (extern_kernels.bias_addmm(*args, alpha=1, beta=1),)\n")
    bias = torch.tensor([[1.0, 2.0]])
    for given in (bias, bias.expand(3, 2), bias.repeat(3, 1)):
        (result,) = run_light(light, "program.py", {})([given, torch.ones(3, 2), torch.eye(2)])
        torch.testing.assert_close(result, torch.tensor([[2.0, 3.0]] * 3))


def test_a_program_that_needs_more_of_the_compiler_stays():
    assert lightened("def call(args):\n    return (align(3),)\n") is None
    assert lightened("def call(args):\n    return (extern_kernels.unknown(args[0]),)\n") is None
