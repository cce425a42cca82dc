"""OpenVINO in float32: pip install optimum-intel[openvino]. suite.py run DIR --serve 'python3 openvino_optimum.py' --format hf"""
import torch
from adapter import chunk_of, main
from optimum.intel import OVModelForCausalLM

F32 = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}


def logits(model, ids, how):
    found = OVModelForCausalLM.from_pretrained(model, export=True, use_cache=True, ov_config=F32, load_in_8bit=False)
    text, cache, rows, mask = torch.tensor([ids]), None, [], torch.ones(1, len(ids), dtype=torch.int64)
    size = chunk_of(how, len(ids))
    for at in range(0, len(ids), size):
        end = min(at + size, len(ids))
        out = found(input_ids=text[:, at:end], attention_mask=mask[:, :end], past_key_values=cache,
                    position_ids=torch.arange(at, end)[None])
        cache = out.past_key_values
        rows.append(out.logits[0])
    return torch.cat(rows).numpy()


main(logits)
