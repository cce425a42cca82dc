/* libcrypto for the wheel's program: libzip needs it to load, and calls it for archives with a
 * password only. Every call fails, so such an archive is refused. The real one has 4.7 MB. */
#include <stddef.h>

#define REFUSES(name)                                                                              \
    void *name(void);                                                                              \
    void *name(void)                                                                               \
    {                                                                                              \
        return NULL; /* for functions that return int: 0, a failure */                             \
    }

REFUSES(AES_encrypt)
REFUSES(AES_set_encrypt_key)
REFUSES(EVP_sha1)
REFUSES(HMAC_CTX_free)
REFUSES(HMAC_CTX_new)
REFUSES(HMAC_Final)
REFUSES(HMAC_Init_ex)
REFUSES(HMAC_Update)
REFUSES(PKCS5_PBKDF2_HMAC_SHA1)
REFUSES(RAND_bytes)
