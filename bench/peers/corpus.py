"""Text as the program reads it: lines, the word vocabulary, ids; and a made-up corpus."""

import collections
import gzip
import random

PAD, START, END, UNKNOWN = range(4)
SPECIAL = 4  # symbols at the head of every vocabulary


def read_lines(path):
    opened = gzip.open(path, "rt", encoding="utf-8", newline="\n") if str(path).endswith(".gz") else open(
        path, encoding="utf-8", newline="\n")
    with opened as file:
        return [line.rstrip("\r\n") for line in file]


def write_lines(path, lines):
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)


def read_parallel(source_file, target_file):
    """[(source tokens, target tokens)]; tokens stand between blanks."""
    sources, targets = read_lines(source_file), read_lines(target_file)
    if len(sources) != len(targets):
        raise SystemExit(f"{source_file} has {len(sources)} lines but {target_file} has {len(targets)}")
    return [(source.split(), target.split()) for source, target in zip(sources, targets)]


def joint_vocabulary(pairs):
    """{token: id}, the most frequent first, equal ones in the order of their bytes, as transduce sorts."""
    counts = collections.Counter(token for pair in pairs for side in pair for token in side)
    ordered = sorted(counts, key=lambda token: (-counts[token], token.encode()))
    return {token: SPECIAL + i for i, token in enumerate(ordered)}


def encode(pairs, vocabulary):
    return [tuple([vocabulary.get(token, UNKNOWN) for token in side] for side in pair) for pair in pairs]


def write_made_up(source_file, target_file, sentences, vocabulary_size, seed=1):
    """Sources of 10 to 40 words, targets up to 3 longer or shorter, as translations are, so that sorting by length
    leaves few pads. Words are drawn uniformly, and every word of the vocabulary occurs."""
    pick = random.Random(seed)
    sources = [pick.randint(10, 40) for _ in range(sentences)]
    lengths = [sources, [length + pick.randint(-3, 3) for length in sources]]
    words = [f"w{i}" for i in range(vocabulary_size - SPECIAL)]
    total = sum(map(sum, lengths))
    if total < len(words):
        raise ValueError(f"{total} tokens cannot hold {len(words)} words")
    tokens = words + pick.choices(words, k=total - len(words))
    pick.shuffle(tokens)
    tokens = iter(tokens)
    for path, side in ((source_file, lengths[0]), (target_file, lengths[1])):
        write_lines(path, (" ".join(next(tokens) for _ in range(length)) for length in side))
