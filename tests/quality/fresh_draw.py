"""The choices of fresh.py's random configurations."""
import random


class Draw:
    """One configuration's choices."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.of = self.r.choice
        self.n_ctx = self.of([48, 64, 100])

    def chance(self, p):
        return self.r.random() < p

    def real(self, low, high):
        return round(self.r.uniform(low, high), 3)

    def shape(self, kv=True, wide_heads=False, even=True):
        """The keys that most families share; head_dim may differ from hidden_size / heads."""
        heads, layers = self.of([1, 2, 3, 4, 6]), self.r.randint(1, 4)
        head_dim = self.of([4, 6, 8, 10, 16, 22] if even else [3, 5, 8, 12])
        keys = dict(hidden_size=heads * head_dim, num_attention_heads=heads, num_hidden_layers=layers,
                    intermediate_size=self.r.randint(5, 70), vocab_size=self.r.randint(17, 130),
                    max_position_embeddings=self.n_ctx, bos_token_id=0, eos_token_id=1, pad_token_id=None,
                    tie_word_embeddings=self.chance(0.5))
        if kv:
            keys['num_key_value_heads'] = self.of([k for k in (1, 2, 3, 4, 6) if heads % k == 0])
        if wide_heads:
            keys['head_dim'] = head_dim
            keys['hidden_size'] = self.of([heads * head_dim, heads * (head_dim + self.of([1, 5]))])
        self.head_dim, self.layers = head_dim, layers
        return keys

    def rope(self, kinds='default default linear llama3 yarn dynamic', theta=(500.0, 10000.0, 1e6), rotated=None):
        kind = self.of(kinds.split())
        keys = {'rope_type': kind, 'rope_theta': self.of(theta)}
        if kind != 'default':
            keys['factor'] = self.of([2.0, 3.5, 8.0])
        if kind in ('llama3', 'yarn', 'longrope'):
            keys['original_max_position_embeddings'] = self.of([16, 32])
        if kind == 'llama3':
            keys.update(low_freq_factor=1.0, high_freq_factor=self.of([2.0, 4.0]))
        if kind == 'yarn' and self.chance(0.4):
            keys['attention_factor'] = self.real(0.7, 1.5)
        if kind == 'yarn' and self.chance(0.3):
            keys.update(beta_fast=self.of([16, 24]), beta_slow=2)
        if kind == 'yarn' and self.chance(0.3):
            keys['truncate'] = False
        if rotated:
            keys['partial_rotary_factor'] = rotated
        if kind == 'longrope':
            del keys['factor']
            n = int(self.head_dim * (rotated or 1)) // 2
            keys.update(short_factor=[self.real(1, 2) for _ in range(n)],
                        long_factor=[self.real(1, 9) for _ in range(n)])
        return keys

    def layer_types(self):
        return [self.of(['full_attention', 'sliding_attention']) for _ in range(self.layers)]

    def mlp_types(self):
        return [self.of(['dense', 'sparse', 'sparse']) for _ in range(self.layers)]

    def windows(self):
        """A window, used or not."""
        keys = {}
        if self.chance(0.5):
            keys = dict(use_sliding_window=True, sliding_window=self.r.randint(1, 30))
            if self.chance(0.5):
                keys['layer_types'] = self.layer_types()
            else:
                keys['max_window_layers'] = self.r.randint(0, 2)
        return keys

    def bias(self, *names):
        return {name: self.chance(0.4) for name in names}

    def act(self, usual):
        return usual if self.chance(0.7) else self.of(['silu', 'gelu', 'gelu_new', 'relu', 'relu2', 'tanh'])


def some_rotated(d, *choices):
    """Part of a head that is rotated: an even number of components."""
    return d.of([c for c in choices if int(d.head_dim * c) % 2 == 0 and int(d.head_dim * c) > 0] or [1.0])
