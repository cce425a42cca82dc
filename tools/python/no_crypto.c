/* libcrypto for the wheel's program: libzip needs it to load, and calls it for archives with a
 * password only. Every call fails, so such an archive is refused. The real one has 4.7 MB. */
#include <stddef.h>

#define REFUSES(name)                                                                              \
    void *name(void);                                                                              \
    void *name(void)                                                                               \
    {                                                                                              \
        return NULL; /* for functions that return int: 0, a failure */                             \
    }

/* libzip 1.7 and 1.11: of Debian 12 and 13. tests/python/test_package.py knows if one is missing. */
REFUSES(AES_encrypt)
REFUSES(AES_set_encrypt_key)
REFUSES(EVP_CIPHER_CTX_free)
REFUSES(EVP_CIPHER_CTX_new)
REFUSES(EVP_EncryptInit_ex)
REFUSES(EVP_EncryptUpdate)
REFUSES(EVP_MAC_CTX_free)
REFUSES(EVP_MAC_CTX_new)
REFUSES(EVP_MAC_fetch)
REFUSES(EVP_MAC_final)
REFUSES(EVP_MAC_free)
REFUSES(EVP_MAC_init)
REFUSES(EVP_MAC_update)
REFUSES(EVP_aes_128_ecb)
REFUSES(EVP_aes_192_ecb)
REFUSES(EVP_aes_256_ecb)
REFUSES(EVP_sha1)
REFUSES(HMAC_CTX_free)
REFUSES(HMAC_CTX_new)
REFUSES(HMAC_Final)
REFUSES(HMAC_Init_ex)
REFUSES(HMAC_Update)
REFUSES(PKCS5_PBKDF2_HMAC_SHA1)
REFUSES(RAND_bytes)

/* OSSL_PARAM, which these return by value. Without a key it ends a list. */
struct parameter {
    const char *key;
    unsigned type;
    void *data;
    size_t size, returned;
};

struct parameter OSSL_PARAM_construct_end(void);
struct parameter OSSL_PARAM_construct_end(void)
{
    return (struct parameter){NULL, 0, NULL, 0, 0};
}

struct parameter OSSL_PARAM_construct_utf8_string(const char *key, char *text, size_t size);
struct parameter OSSL_PARAM_construct_utf8_string(const char *key, char *text, size_t size)
{
    (void)key, (void)text, (void)size;
    return OSSL_PARAM_construct_end();
}
