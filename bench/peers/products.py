"""How much arithmetic a model's matrix products are: the floor that no implementation gets below.

A multiplication and the addition after it are two operations. Counted are matrix products only, each over real
tokens (pads and rows above the causal diagonal never count), forward; the backward pass computes two products of
the same size for each. With S source and T target tokens of a sentence (end symbol counted), width C, feed-forward
F and V words, a forward pass takes

  encoder layer   S (8 C^2 + 4 C F) + 4 C S^2
  decoder layer   T (12 C^2 + 4 C F) + S 4 C^2 + 4 C T (T + 1) / 2 + 4 C S T
  output          T 2 C V

8 C^2: queries, keys, values and the attention's output. 12 C^2: the same, and queries and output of the attention
to the source, whose keys and values are the S 4 C^2. Terms in 4 C: scores and weighted sums of the attentions.
Nothing is counted twice, whatever an implementation recomputes.
"""


def forward(model, lengths):
    """Operations of a forward pass over sentences of (S, T) tokens, given the "model" part of a config.json."""
    width, inner = model["width"], model["feed_forward"]
    source = sum(s for s, _ in lengths)
    target = sum(t for _, t in lengths)
    encoder = source * (8 * width**2 + 4 * width * inner) + 4 * width * sum(s * s for s, _ in lengths)
    decoder = (target * (12 * width**2 + 4 * width * inner) + source * 4 * width**2
               + 4 * width * sum(t * (t + 1) // 2 + s * t for s, t in lengths))
    output = target * 2 * width * model["target_vocabulary"]
    return model["encoder_layers"] * encoder + model["decoder_layers"] * decoder + output


def training(model, lengths):
    """Operations of an update: forward and backward."""
    return 3 * forward(model, lengths)
