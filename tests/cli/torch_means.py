"""Compares the means that transduce made with PyTorch's: the mean of files, and a moving average of parameters.

torch_means.py MEAN DECAY PARAMETERS_DIRECTORY AVERAGES_DIRECTORY
  MEAN                  file that holds the mean of the last three step files of PARAMETERS_DIRECTORY
  PARAMETERS_DIRECTORY  step-N.safetensors of a training, N = 1, 2, ...: the parameters
  AVERAGES_DIRECTORY    the same of its twin with --ema DECAY: their moving average
Prints the largest difference of each.
"""
import glob
import os
import re
import sys

import torch
from safetensors.torch import load_file
from torch.optim.swa_utils import get_ema_multi_avg_fn, get_swa_multi_avg_fn


def steps_of(directory):
    number = lambda path: int(re.search(r"step-(\d+)", path).group(1))
    return [load_file(path) for path in sorted(glob.glob(os.path.join(directory, "step-*.safetensors")), key=number)]


def largest_difference(a, b):
    assert a.keys() == b.keys()
    return max((a[name] - b[name]).abs().max().item() for name in a)


def averaged(steps, function):
    """The steps as AveragedModel would have them: the first is copied, each later one goes through `function`."""
    names = list(steps[0])
    average = [steps[0][name].double() for name in names]
    for count, step in enumerate(steps[1:], 1):
        function(average, [step[name].double() for name in names], torch.tensor(count))
    return dict(zip(names, average))


mean, decay, parameters, averages = sys.argv[1:]
parameters = steps_of(parameters)
print(largest_difference(averaged(parameters[-3:], get_swa_multi_avg_fn()), load_file(mean)))
# The start, which PyTorch's average lacks, has decayed to nothing by now.
print(largest_difference(averaged(parameters, get_ema_multi_avg_fn(float(decay))), steps_of(averages)[-1]))
