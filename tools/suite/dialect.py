"""config.json as transformers 4 writes it."""
# What transformers 4 (4.57) has no key or no class for.
NOT_IN_4 = ('cwm', 'jais2', 'nanochat')


def config_of_4(config):
    """The configuration with rope_theta, rope_scaling and so on at the top, torch_dtype; None: 4 cannot say it, or
    says it in the same keys."""
    config = dict(config, transformers_version='4.57.6')
    config['torch_dtype'] = config.pop('dtype', 'float32')
    if config['model_type'] in NOT_IN_4:
        return None
    if config['model_type'] == 'gpt2':
        config['n_ctx'] = config['n_positions']
    if config['model_type'] == 'qwen3_moe':
        config['num_experts'] = config.pop('num_local_experts')
    if config['model_type'] == 'granitemoehybrid':
        config['layer_types'] = ['attention'] * len(config['layer_types'])
    rope = config.pop('rope_parameters', None)
    if not rope:
        return config if config['model_type'] == 'gpt2' else None
    full = rope.get('full_attention', rope)
    short = rope.get('sliding_attention', full)
    if short != full and not config['model_type'].startswith('gemma3'):
        return None
    if config['model_type'].startswith('gemma3'):
        config['rope_local_base_freq'] = short['rope_theta']
    config['rope_theta'] = full['rope_theta']
    if 'partial_rotary_factor' in full:
        config['partial_rotary_factor'] = full['partial_rotary_factor']
    if config['model_type'] == 'gpt_neox':
        config['rotary_pct'], config['rotary_emb_base'] = full.get('partial_rotary_factor', 0.25), full['rope_theta']
    scaling = {key: value for key, value in full.items() if key not in ('rope_theta', 'partial_rotary_factor')}
    if scaling['rope_type'] == 'longrope':
        scaling['type'] = scaling.pop('rope_type')
        config['original_max_position_embeddings'] = scaling.pop('original_max_position_embeddings')
    config['rope_scaling'] = None if scaling.get('rope_type') == 'default' else scaling
    return config
