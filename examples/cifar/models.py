"""ResNet34, ResNet50 and DenseNet121 for pictures of 32 x 32.

Blocks, widths and depths are those for ImageNet (He et al. 2016; Huang et al. 2017). What differs is the beginning: a
3 x 3 convolution of stride 1 and no pooling, so that the stages see 32, 16, 8 and 4 pixels a side.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

STEM = 64


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)


class Residual(nn.Module):
    """Adds what its body computes to what came in; where the shapes differ a 1 x 1 convolution makes them alike.

    The last norm of the body begins at 0, so that a new block adds nothing (Goyal et al. 2017): without a warm-up the
    first steps at a learning rate of 0.1 would throw the weights far off.
    """

    def __init__(self, body: nn.Sequential, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = body
        nn.init.zeros_(body[-1].weight)
        alike = stride == 1 and inputs == outputs
        self.shortcut = (
            nn.Identity() if alike else nn.Sequential(_conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add and rectify."""
        return torch.relu(self.body(x) + self.shortcut(x))


def basic(inputs: int, width: int, stride: int) -> Residual:
    """Two 3 x 3 convolutions."""
    body = nn.Sequential(
        _conv(inputs, width, 3, stride),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        _conv(width, width, 3),
        nn.BatchNorm2d(width),
    )
    return Residual(body, inputs, width, stride)


def bottleneck(inputs: int, width: int, stride: int) -> Residual:
    """A 3 x 3 convolution between two of 1 x 1, the last of which widens by 4."""
    body = nn.Sequential(
        _conv(inputs, width, 1),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        _conv(width, width, 3, stride),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        _conv(width, 4 * width, 1),
        nn.BatchNorm2d(4 * width),
    )
    return Residual(body, inputs, 4 * width, stride)


def _head(features: int, num_classes: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, num_classes)]


def _resnet(
    block: Callable[[int, int, int], Residual], depths: tuple[int, ...], expansion: int, num_classes: int
) -> nn.Sequential:
    layers: list[nn.Module] = [_conv(3, STEM, 3), nn.BatchNorm2d(STEM), nn.ReLU(inplace=True)]
    features = STEM
    for stage, depth in enumerate(depths):
        width = STEM * 2**stage
        for i in range(depth):
            layers.append(block(features, width, 2 if stage > 0 and i == 0 else 1))
            features = expansion * width
    return nn.Sequential(*layers, *_head(features, num_classes))


def resnet34(num_classes: int = 10) -> nn.Sequential:
    """ResNet34: 16 basic blocks."""
    return _resnet(basic, (3, 4, 6, 3), 1, num_classes)


def resnet50(num_classes: int = 10) -> nn.Sequential:
    """ResNet50: 16 bottleneck blocks."""
    return _resnet(bottleneck, (3, 4, 6, 3), 4, num_classes)


class Dense(nn.Module):
    """Appends `growth` new channels to those that came in."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(inplace=True),
            _conv(inputs, 4 * growth, 1),
            nn.BatchNorm2d(4 * growth),
            nn.ReLU(inplace=True),
            _conv(4 * growth, growth, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate."""
        return torch.cat([x, self.body(x)], dim=1)


def densenet121(num_classes: int = 10) -> nn.Sequential:
    """DenseNet121: blocks of 6, 12, 24 and 16 layers that grow by 32; between them channels and sides are halved."""
    growth, depths = 32, (6, 12, 24, 16)
    layers: list[nn.Module] = [_conv(3, STEM, 3)]
    features = STEM
    for stage, depth in enumerate(depths):
        for _ in range(depth):
            layers.append(Dense(features, growth))
            features += growth
        layers += [nn.BatchNorm2d(features), nn.ReLU(inplace=True)]
        if stage < len(depths) - 1:
            layers += [_conv(features, features // 2, 1), nn.AvgPool2d(2)]
            features //= 2
    return nn.Sequential(*layers, *_head(features, num_classes))


MODELS: dict[str, Callable[[int], nn.Sequential]] = {
    "resnet34": resnet34,
    "resnet50": resnet50,
    "densenet121": densenet121,
}
