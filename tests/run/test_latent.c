/* Latent attention: what is its own. The passes themselves are those of every toy. */
#include "support/toy_zoo.h"
#include "support/unit.h"

static int is_copy(int point)
{
    return point == MGPT_K || point == MGPT_V || point == MGPT_ROT_K;
}

static int change_first(const mgpt_value *value, void *user)
{
    assert_int_equal(value->copied, is_copy((int)value->point));
    (void)user;
    value->data[0] += 1;
    return 0;
}

/* Keys and values are copies: a tap that changes one ends the call, and the session is as it was. */
TEST_ZOO(copies_are_not_changed)
{
    mgpt_error err;
    for (int point = 0; s->m->spec.n_latent && point < MGPT_N_POINTS; point++) {
        mgpt_session *session = mgpt_session_new(s->model, NULL, NULL);
        mgpt_tap(session, MGPT_POINT_BIT(point), change_first, NULL, NULL);
        int status = mgpt_feed(session, s->tokens, 4, &err);
        assert_int_equal(status, is_copy(point) ? MGPT_EARG : MGPT_OK);
        assert_int_equal(mgpt_pos(session), status == MGPT_OK ? 4 : 0);
        mgpt_tap(session, 0, NULL, NULL, NULL);
        mgpt_stop(session);
        assert_int_equal(mgpt_feed(session, s->tokens, 4, &err), MGPT_ESTOP);
        mgpt_session_free(session);
    }
}
