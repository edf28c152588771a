/*
 * The only file that knows OpenSSL. Extensions are built from typed structures, never from configuration text, because
 * that language can read files. Every failure drains the error queue of the thread.
 */
#include "sluice/webhook/pki.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "sluice/base/mem.h"

#define MAX_PEM   ((size_t)1 << 20)
#define MAX_CERTS 64

static int fail(struct sl_err *err, const char *what) {
    unsigned long code = ERR_get_error();
    char text[160] = "no detail";
    if (code)
        ERR_error_string_n(code, text, sizeof text);
    ERR_clear_error();
    if (err)
        err->sys = (int)ERR_GET_REASON(code);
    return sl_err_set(err, SL_INTERNAL, "%s: %s", what, text);
}

static int invalid(struct sl_err *err, const char *text) {
    ERR_clear_error();
    return sl_err_set(err, SL_INVALID, "%s", text);
}

void sl_pki_pair_done(struct sl_pki_pair *pair) {
    if (pair->key_pem)
        OPENSSL_cleanse(pair->key_pem, strlen(pair->key_pem));
    free(pair->key_pem);
    free(pair->cert_pem);
    pair->key_pem = pair->cert_pem = NULL;
}

/* An encrypted key would otherwise be asked for on the terminal. */
static int no_passphrase(char *buf, int size, int writing, void *payload) {
    (void)buf, (void)size, (void)writing, (void)payload;
    return -1;
}

static BIO *reader(const char *pem) {
    size_t n = pem ? strnlen(pem, MAX_PEM + 1) : 0;
    return n && n <= MAX_PEM ? BIO_new_mem_buf(pem, (int)n) : NULL;
}

static X509 *read_cert(const char *pem) {
    BIO *bio = reader(pem);
    X509 *x = bio ? PEM_read_bio_X509(bio, NULL, no_passphrase, NULL) : NULL;
    BIO_free(bio);
    return x;
}

static EVP_PKEY *read_key(const char *pem) {
    BIO *bio = reader(pem);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;
    BIO_free(bio);
    return key;
}

static char *text_of(BIO *bio) {
    char *data;
    long n = BIO_get_mem_data(bio, &data);
    return n > 0 ? sl_xstrndup(data, (size_t)n) : NULL;
}

static int write_pair(X509 *x, EVP_PKEY *key, struct sl_pki_pair *ret, struct sl_err *err) {
    BIO *cert = BIO_new(BIO_s_mem()), *secret = BIO_new(BIO_s_secmem());
    struct sl_pki_pair pair = SL_PKI_PAIR_INIT;
    if (cert && secret && PEM_write_bio_X509(cert, x) &&
        PEM_write_bio_PrivateKey(secret, key, NULL, NULL, 0, NULL, NULL)) {
        pair.cert_pem = text_of(cert);
        pair.key_pem = text_of(secret);
    }
    BIO_free(cert);
    BIO_free(secret);
    if (!pair.cert_pem || !pair.key_pem) {
        sl_pki_pair_done(&pair);
        return fail(err, "write certificate");
    }
    *ret = pair;
    return 0;
}

static bool set_time(ASN1_TIME *t, int64_t ms) {
    time_t s = (time_t)(ms / 1000);
    return X509_time_adj_ex(t, 0, 0, &s) != NULL;
}

static bool set_serial(X509 *x) {
    unsigned char bytes[16];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    bytes[0] = (bytes[0] & 0x7f) | 0x40; /* positive, and never shorter than it looks */
    BIGNUM *n = BN_bin2bn(bytes, sizeof bytes, NULL);
    bool ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
    BN_free(n);
    return ok;
}

static bool set_name(X509_NAME *name, const char *common_name) {
    return X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8, (const unsigned char *)common_name, -1, -1,
                                      0) == 1;
}

static bool add_basic_constraints(X509 *x, bool ca) {
    BASIC_CONSTRAINTS *bc = BASIC_CONSTRAINTS_new();
    if (!bc)
        return false;
    bc->ca = ca ? 0xff : 0;
    if (ca) {
        bc->pathlen = ASN1_INTEGER_new(); /* 0: signs leaves only */
        if (!bc->pathlen || !ASN1_INTEGER_set(bc->pathlen, 0)) {
            BASIC_CONSTRAINTS_free(bc);
            return false;
        }
    }
    bool ok = X509_add1_ext_i2d(x, NID_basic_constraints, bc, 1, X509V3_ADD_DEFAULT) == 1;
    BASIC_CONSTRAINTS_free(bc);
    return ok;
}

static bool add_key_usage(X509 *x, bool ca) {
    ASN1_BIT_STRING *bits = ASN1_BIT_STRING_new();
    if (!bits)
        return false;
    /* bit 0 digitalSignature, 5 keyCertSign, 6 cRLSign */
    bool ok = ca ? ASN1_BIT_STRING_set_bit(bits, 5, 1) && ASN1_BIT_STRING_set_bit(bits, 6, 1)
                 : ASN1_BIT_STRING_set_bit(bits, 0, 1) == 1;
    ok = ok && X509_add1_ext_i2d(x, NID_key_usage, bits, 1, X509V3_ADD_DEFAULT) == 1;
    ASN1_BIT_STRING_free(bits);
    return ok;
}

static bool add_server_auth(X509 *x) {
    EXTENDED_KEY_USAGE *usage = EXTENDED_KEY_USAGE_new();
    ASN1_OBJECT *purpose = OBJ_nid2obj(NID_server_auth);
    bool ok = usage && purpose && sk_ASN1_OBJECT_push(usage, purpose) &&
              X509_add1_ext_i2d(x, NID_ext_key_usage, usage, 0, X509V3_ADD_DEFAULT) == 1;
    EXTENDED_KEY_USAGE_free(usage);
    return ok;
}

static bool key_id(X509 *x, ASN1_OCTET_STRING **ret) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    *ret = ASN1_OCTET_STRING_new();
    return *ret && X509_pubkey_digest(x, EVP_sha1(), digest, &n) && ASN1_OCTET_STRING_set(*ret, digest, (int)n);
}

/* Subject and authority key identifiers, by which chains are found when two CAs have one name. */
static bool add_key_ids(X509 *x, X509 *issuer) {
    ASN1_OCTET_STRING *own = NULL;
    AUTHORITY_KEYID *authority = AUTHORITY_KEYID_new();
    bool ok = key_id(x, &own) && X509_add1_ext_i2d(x, NID_subject_key_identifier, own, 0, X509V3_ADD_DEFAULT) == 1;
    ok = ok && authority && key_id(issuer, &authority->keyid) &&
         X509_add1_ext_i2d(x, NID_authority_key_identifier, authority, 0, X509V3_ADD_DEFAULT) == 1;
    ASN1_OCTET_STRING_free(own);
    AUTHORITY_KEYID_free(authority);
    return ok;
}

static bool is_dns_name(const char *s) {
    size_t n = strnlen(s, 254);
    if (n == 0 || n > 253)
        return false;
    size_t label = 0;
    for (size_t i = 0; i < n; i++) {
        bool alnum = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= '0' && s[i] <= '9');
        if (s[i] == '.') {
            if (!label || s[i - 1] == '-')
                return false;
            label = 0;
        } else if (alnum || s[i] == '_' || (s[i] == '-' && label)) {
            if (++label > 63)
                return false;
        } else {
            return false;
        }
    }
    return label && s[n - 1] != '-';
}

static int add_name(GENERAL_NAMES *names, const char *text, struct sl_err *err) {
    unsigned char address[16];
    size_t n = inet_pton(AF_INET, text, address) == 1 ? 4 : inet_pton(AF_INET6, text, address) == 1 ? 16 : 0;
    if (!n && !is_dns_name(text))
        return sl_err_set(err, SL_INVALID, "\"%.100s\" is neither a DNS name nor an address", text);
    GENERAL_NAME *g = GENERAL_NAME_new();
    ASN1_STRING *value = n ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
    if (!g || !value || !(n ? ASN1_STRING_set(value, address, (int)n) : ASN1_STRING_set(value, text, -1))) {
        GENERAL_NAME_free(g);
        ASN1_STRING_free(value);
        return fail(err, "subject name");
    }
    GENERAL_NAME_set0_value(g, n ? GEN_IPADD : GEN_DNS, value);
    if (!sk_GENERAL_NAME_push(names, g)) {
        GENERAL_NAME_free(g);
        return fail(err, "subject name");
    }
    return 0;
}

static int add_names(X509 *x, const char *const *names, struct sl_err *err) {
    GENERAL_NAMES *list = GENERAL_NAMES_new();
    if (!list)
        return fail(err, "subject names");
    int rc = 0;
    for (size_t i = 0; !rc && names[i]; i++)
        rc = add_name(list, names[i], err);
    if (!rc && X509_add1_ext_i2d(x, NID_subject_alt_name, list, 0, X509V3_ADD_DEFAULT) != 1)
        rc = fail(err, "subject names");
    GENERAL_NAMES_free(list);
    return rc;
}

/* Everything that both kinds have; not_after already bounded. */
static bool begin(X509 *x, EVP_PKEY *key, const char *common_name, int64_t not_before_ms, int64_t not_after_ms) {
    return X509_set_version(x, X509_VERSION_3) && set_serial(x) && set_time(X509_getm_notBefore(x), not_before_ms) &&
           set_time(X509_getm_notAfter(x), not_after_ms) && X509_set_pubkey(x, key) &&
           set_name(X509_get_subject_name(x), common_name);
}

int sl_pki_make_ca(const char *common_name, int64_t now_ms, int64_t life_ms, struct sl_pki_pair *ret,
                   struct sl_err *err) {
    if (!*common_name || strlen(common_name) > 64)
        return sl_err_set(err, SL_INVALID, "the name of the CA must have 1 to 64 bytes");
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    int rc = 0;
    if (!key || !x || !begin(x, key, common_name, now_ms - SL_PKI_BACKDATE_MS, now_ms + life_ms) ||
        !X509_set_issuer_name(x, X509_get_subject_name(x)) || !add_basic_constraints(x, true) ||
        !add_key_usage(x, true) || !add_key_ids(x, x) || !X509_sign(x, key, EVP_sha256()))
        rc = fail(err, "make CA");
    if (!rc)
        rc = write_pair(x, key, ret, err);
    X509_free(x);
    EVP_PKEY_free(key);
    return rc;
}

static bool time_ms(const ASN1_TIME *t, int64_t *ret) {
    struct tm tm;
    if (!ASN1_TIME_to_tm(t, &tm))
        return false;
    *ret = (int64_t)timegm(&tm) * 1000;
    return true;
}

static int sign_serving(X509 *ca, EVP_PKEY *ca_key, const char *const *names, int64_t now_ms, int64_t life_ms,
                        struct sl_pki_pair *ret, struct sl_err *err) {
    int64_t ca_end = 0, end = now_ms + life_ms;
    if (X509_check_private_key(ca, ca_key) != 1)
        return invalid(err, "the key of the CA does not belong to it");
    if (X509_check_ca(ca) < 1 || !time_ms(X509_get0_notAfter(ca), &ca_end))
        return invalid(err, "the CA certificate is not one of a CA");
    if (ca_end <= now_ms)
        return invalid(err, "the CA has expired");
    if (end > ca_end)
        end = ca_end;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    int rc = 0;
    /* clients look at the names only; the common name is for people, and has at most 64 bytes */
    char common_name[65];
    size_t n = strnlen(names[0], sizeof common_name - 1);
    memcpy(common_name, names[0], n);
    common_name[n] = 0;
    if (!key || !x || !begin(x, key, common_name, now_ms - SL_PKI_BACKDATE_MS, end) ||
        !X509_set_issuer_name(x, X509_get_subject_name(ca)) || !add_basic_constraints(x, false) ||
        !add_key_usage(x, false) || !add_server_auth(x) || !add_key_ids(x, ca))
        rc = fail(err, "make serving certificate");
    if (!rc)
        rc = add_names(x, names, err);
    if (!rc && !X509_sign(x, ca_key, EVP_sha256()))
        rc = fail(err, "sign serving certificate");
    if (!rc)
        rc = write_pair(x, key, ret, err);
    X509_free(x);
    EVP_PKEY_free(key);
    return rc;
}

int sl_pki_make_serving(const struct sl_pki_pair *ca, const char *const *names, int64_t now_ms, int64_t life_ms,
                        struct sl_pki_pair *ret, struct sl_err *err) {
    if (!names || !names[0] || !*names[0])
        return sl_err_set(err, SL_INVALID, "a serving certificate needs a name");
    X509 *x = read_cert(ca->cert_pem);
    EVP_PKEY *key = read_key(ca->key_pem);
    int rc = x && key ? sign_serving(x, key, names, now_ms, life_ms, ret, err)
                      : invalid(err, "the CA's certificate or key cannot be read");
    X509_free(x);
    EVP_PKEY_free(key);
    return rc;
}

int sl_pki_info(const char *cert_pem, struct sl_pki_info *ret, struct sl_err *err) {
    X509 *x = read_cert(cert_pem);
    if (!x)
        return invalid(err, "not a PEM certificate");
    struct sl_pki_info info = {0, 0, X509_check_ca(x) > 0, ""};
    bool ok =
        time_ms(X509_get0_notBefore(x), &info.not_before_ms) && time_ms(X509_get0_notAfter(x), &info.not_after_ms);
    const ASN1_INTEGER *serial = X509_get0_serialNumber(x);
    for (int i = 0; i < serial->length && i < 20; i++) {
        info.serial[2 * i] = "0123456789abcdef"[serial->data[i] >> 4];
        info.serial[2 * i + 1] = "0123456789abcdef"[serial->data[i] & 15];
    }
    X509_free(x);
    if (!ok)
        return invalid(err, "the certificate has no valid dates");
    *ret = info;
    return 0;
}

int sl_pki_check_pair(const char *cert_pem, const char *key_pem, struct sl_err *err) {
    X509 *x = read_cert(cert_pem);
    EVP_PKEY *key = x ? read_key(key_pem) : NULL;
    int rc = 0;
    if (!x)
        rc = invalid(err, "not a PEM certificate");
    else if (!key)
        rc = invalid(err, "the key cannot be read (not PEM, or encrypted)");
    else if (X509_check_private_key(x, key) != 1)
        rc = invalid(err, "the key does not belong to the certificate");
    X509_free(x);
    EVP_PKEY_free(key);
    return rc;
}

/* Every certificate in the text, onto list or store. Returns how many. */
static int read_all(const char *pem, STACK_OF(X509) * list, X509_STORE *store) {
    BIO *bio = reader(pem);
    int n = 0;
    for (X509 *x; bio && n < MAX_CERTS && (x = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL)); n++) {
        if (store)
            X509_STORE_add_cert(store, x);
        if (!list || !sk_X509_push(list, x))
            X509_free(x);
    }
    BIO_free(bio);
    ERR_clear_error();
    return n;
}

static int verify(X509_STORE_CTX *ctx, X509_STORE *store, STACK_OF(X509) * chain, const char *name, int64_t now_ms,
                  struct sl_err *err) {
    if (!X509_STORE_CTX_init(ctx, store, sk_X509_value(chain, 0), chain))
        return fail(err, "verify");
    X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(ctx);
    X509_VERIFY_PARAM_set_time(param, (time_t)(now_ms / 1000));
    X509_VERIFY_PARAM_set_purpose(param, X509_PURPOSE_SSL_SERVER);
    X509_VERIFY_PARAM_set_flags(param,
                                X509_V_FLAG_PARTIAL_CHAIN); /* as Go: a given intermediate may be the root of trust */
    if (name) {
        unsigned char address[16];
        bool ip = inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
        X509_VERIFY_PARAM_set_hostflags(param,
                                        X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        if (!(ip ? X509_VERIFY_PARAM_set1_ip_asc(param, name) : X509_VERIFY_PARAM_set1_host(param, name, 0)))
            return fail(err, "verify");
    }
    if (X509_verify_cert(ctx) == 1)
        return 0;
    const char *why = X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx));
    return invalid(err, why);
}

int sl_pki_check_chain(const char *cert_pem, const char *ca_bundle_pem, const char *name, int64_t now_ms,
                       struct sl_err *err) {
    X509_STORE *store = X509_STORE_new();
    STACK_OF(X509) *chain = sk_X509_new_null();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    int rc;
    if (!store || !chain || !ctx)
        rc = fail(err, "verify");
    else if (!read_all(cert_pem, chain, NULL))
        rc = invalid(err, "not a PEM certificate");
    else if (!read_all(ca_bundle_pem, NULL, store))
        rc = invalid(err, "the CA bundle holds no certificate");
    else
        rc = verify(ctx, store, chain, name, now_ms, err);
    X509_STORE_CTX_free(ctx);
    sk_X509_pop_free(chain, X509_free);
    X509_STORE_free(store);
    return rc;
}
