/* Inside suspects: the changes that they make, suspect.apply each. */
#ifndef MGPT_SUSPECTS_IMPL_H
#define MGPT_SUSPECTS_IMPL_H

#include "check/explain/suspects.h"

typedef int suspect_fn(struct whatif *w, const struct suspect *s, int layer);

suspect_fn suspect_heads, suspect_pairs, suspect_stored, suspect_order, suspect_base,
    suspect_factor, suspect_unscaled, suspect_llama3, suspect_no_rope, suspect_shift,
    suspect_window, suspect_bos_added, suspect_first_dropped, suspect_rows_shifted,
    suspect_ids_shifted, suspect_attn_scale, suspect_eps, suspect_embd_scale, suspect_softcap,
    suspect_attn_cap, suspect_unclamped, suspect_activation, suspect_swapped, suspect_turned,
    suspect_hidden, suspect_final_norm, suspect_embd_norm, suspect_norm_kind, suspect_branch_norms,
    suspect_qk_norms, suspect_gains, suspect_branches, suspect_kv_heads, suspect_layers,
    suspect_given, suspect_tokens_moved;

#endif
