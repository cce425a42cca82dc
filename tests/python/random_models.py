"""Checkpoints of transformers with random weights, for the torch suite."""


def random_model(kind, options, seed):
    """A model of a configuration class, in evaluation mode. Norms and biases are random, too."""
    import torch
    import transformers
    torch.manual_seed(seed)
    config = getattr(transformers, kind)(**options)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    return model
