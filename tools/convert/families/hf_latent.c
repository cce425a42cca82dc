/* Latent attention (MLA): DeepSeek-V2 and V3, MiniCPM3. "read do NAME" of models.txt. See hf_special.h.
 *
 * kv_b_proj stays one tensor, attn_kv_b, as in llama.cpp's first files: rows of the keys of a head, then
 * of its values.
 */
#include "base/mem.h"
#include "convert/families/hf_special.h"

#include <math.h>
#include <string.h>

enum { LATENT_MOST = 1 << 20 };

void hf_latent_sizes(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const json_t *rank = json_object_get(m->cfg.text, "q_lora_rank");
    uint32_t nope = hf_count(m, "qk_nope_head_dim", -1, 1, LATENT_MOST);
    hp->n_rot = hf_count(m, "qk_rope_head_dim", -1, 2, LATENT_MOST);
    hp->n_latent = hf_count(m, "kv_lora_rank", -1, 1, LATENT_MOST);
    int64_t usual = m->family->experts ? -1 : (int64_t)(hp->n_embd / hp->n_head); /* MiniCPM3 */
    hp->value_dim = hf_count(m, "v_head_dim", usual, 1, LATENT_MOST);
    if (!rank)
        hf_stop(m, "q_lora_rank: missing; null if queries have none");
    m->variant = hf_get(m, "q_lora_rank") != NULL;
    if (m->variant)
        hp->n_q_latent = hf_count(m, "q_lora_rank", -1, 1, LATENT_MOST);
    hp->head_dim = nope + hp->n_rot;
    if (hp->n_head_kv != hp->n_head)
        hf_stop(m, "num_key_value_heads: expected %u, as many as heads", hp->n_head);
}

/* Norms of latents have an eps of their own. Scores of texts whose positions are scaled are multiplied:
 * GGUF has a tenth of mscale_all_dim, and the rotation is scaled by what is left. */
void hf_latent_numbers(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const float eps = 1e-6F;
    const struct hf_rope *r = &m->rope;
    double all = r->factor > 1 ? 1 + 0.1 * r->all_dim * log(r->factor) : 1;
    hp->latent_eps = hp->norm_eps == eps ? 0 : eps;
    if (strcmp(r->type, "default") == 0 || r->all_dim == 0)
        return;
    if (strcmp(r->type, "yarn") == 0 && r->all_dim > 0) {
        hp->yarn_log = (float)(0.1 * r->all_dim);
        hp->rope_attn_factor *= (float)(1 + 0.1 * log(r->factor));
    } else {
        hp->attn_scale = (float)(all * all / sqrt((double)hp->head_dim));
    }
}

/* Groups count for one method only. */
void hf_deepseek2(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const char *method = hf_word(m, "topk_method", "greedy");
    int by_groups = strcmp(method, "group_limited_greedy") == 0;
    hf_off(m, "norm_topk_prob");
    if (!by_groups && strcmp(method, "greedy") != 0)
        hf_stop(m, "topk_method: %.40s is not supported, only greedy and group_limited_greedy",
                method);
    hf_experts_of(m);
    if (by_groups)
        hf_groups_of(m, 1);
    hp->expert_norm = -1;
    hf_latent_numbers(m);
}

/* The class turns head_dim components. */
void hf_deepseek3(struct hf_model *m)
{
    uint32_t n_rot = m->c->hp.n_rot;
    hf_count(m, "head_dim", n_rot, n_rot, n_rot);
    hf_routed(m);
    hf_latent_numbers(m);
}

/* All layers but the first are mixtures where a list does not say it. */
void hf_deepseek3_types(struct hf_model *m)
{
    hf_deepseek3(m);
    m->first_mixture = hf_count(m, "first_k_dense_replace", 1, 0, INT32_MAX);
    hf_count(m, "moe_layer_freq", 1, 1, 1);
    hf_mlp_types(m);
}

/* An indexer chooses index_topk keys, which are all in texts that are no longer: there it is left out. */
void hf_indexed(struct hf_model *m)
{
    const struct ckpt_options *o = m->in->options;
    uint32_t all = m->c->hp.n_ctx, most = hf_count(m, "index_topk", 2048, 1, INT32_MAX);
    int given = (o->given & OPT_CONTEXT) != 0;
    hf_get(m, "layer_types"); /* one for all, of caches */
    most = most < all ? most : all;
    if (given && (uint32_t)o->n_ctx > most)
        ckpt_stop(m->c,
                  "--context %d: without the indexer attention is that of the model up to %u "
                  "positions (index_topk)",
                  (int)o->n_ctx, most);
    m->c->hp.n_ctx = given ? (uint32_t)o->n_ctx : most;
    if (most < all)
        ckpt_note(m->c,
                  "context %u of %u: up to index_topk positions the indexer, which is left out, "
                  "chooses all keys",
                  m->c->hp.n_ctx, all);
}

void hf_put_indexed(struct hf_model *m)
{
    hf_put_mlps(m);
    for (size_t i = 0; i < arr_len(m->state.tensors); i++)
        m->state.tensors[i].used |= strstr(m->state.tensors[i].name, ".self_attn.indexer.") != NULL;
}

void hf_minicpm3(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    double depth = hf_num(m, "scale_depth", NAN, 0, 1e6);
    hp->embd_scale = (float)hf_num(m, "scale_emb", NAN, 0, 1e6);
    hp->residual_scale = hp->n_layer ? (float)(depth / sqrt((double)hp->n_layer)) : 1;
    hp->logit_scale = (float)((double)hp->n_embd / hf_num(m, "dim_model_base", NAN, 0, 1e9));
    hf_latent_numbers(m);
}
