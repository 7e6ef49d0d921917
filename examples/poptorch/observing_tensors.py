"""Looking at values inside a model while it trains: printing on the device, and tensors that calls keep."""

import copy

import poptorch
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, prints: bool = False) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(3, 4), nn.Linear(4, 1)
        self.prints = prints

    def forward(self, x, y):
        hidden = torch.tanh(self.hidden(x))
        if self.prints:
            hidden = poptorch.ipu_print_tensor(hidden, "hidden", digits=3)  # its gradient is printed too
        return F.mse_loss(self.out(hidden), y)


def main():
    torch.manual_seed(0)
    start = Net()
    x, y = torch.randn(2, 3), torch.randn(2, 1)

    print("what the device prints goes to the standard error stream:")
    printing = Net(prints=True)
    printing.load_state_dict(start.state_dict())
    poptorch.trainingModel(printing)(x, y)

    model = copy.deepcopy(start)
    options = poptorch.Options()
    options.anchorTensor("gradient", "Gradient___hidden.weight")
    options.anchorTensor("updated", "UpdatedVar___hidden.weight")
    options.anchorTensor("activation", "hidden/MatMul:0")
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    training.compile(x, y)
    print(f"\nsome of the {len(training.getTensorNames())} tensors of the model:")
    print("  " + ", ".join(name for name in training.getTensorNames() if "hidden" in name)[:200])

    cpu_model = copy.deepcopy(start)
    optimizer = torch.optim.SGD(cpu_model.parameters(), lr=0.1)
    for step in range(5):
        training(x, y)
        optimizer.zero_grad()
        activation = cpu_model.hidden(x).detach()
        cpu_model(x, y).backward()
        optimizer.step()
        gradient = training.getAnchoredTensor("gradient")
        torch.testing.assert_close(gradient, cpu_model.hidden.weight.grad)
        torch.testing.assert_close(training.getAnchoredTensor("updated"), cpu_model.hidden.weight.detach())
        torch.testing.assert_close(training.getAnchoredTensor("activation"), activation)
        print(f"step {step}: norm of the gradient {gradient.norm().item():.4f}, as on the CPU")


if __name__ == "__main__":
    main()
