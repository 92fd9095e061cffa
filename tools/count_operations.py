#!/usr/bin/env python3
"""The arithmetic of the paper's base model as PyTorch counts it: the figures of tests/models/anatomy_test.cpp.

Needs torch. One sentence, 20 source and 30 target tokens; operations of one encoder layer, one decoder layer and
an output layer of 37,000 pieces.
"""
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

S, T, C, H, F, V = 20, 30, 512, 8, 2048, 37000


def count(module, *inputs, **named):
    module.train()  # the fused inference path is not counted
    with FlopCounterMode(display=False) as counter:
        module(*inputs, **named)
    return counter.get_total_flops()


source, target = torch.randn(1, S, C), torch.randn(1, T, C)
print("encoder layer", count(nn.TransformerEncoderLayer(C, H, F, batch_first=True), source))
print("decoder layer", count(nn.TransformerDecoderLayer(C, H, F, batch_first=True), target, source))
print("output", count(nn.Linear(C, V, bias=False), target))
