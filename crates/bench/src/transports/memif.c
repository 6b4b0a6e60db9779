/* What a link of DPDK costs by itself, as a C programmer would measure it: frames with a fixed header, nothing checked,
   nothing counted, nothing sent again. */
#include <errno.h>
#include <string.h>

#include <rte_config.h>
#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>

enum { HEADER = 42, BURST = 32, BUFFERS = 2047, PATIENCE_S = 2 };

struct bare {
    struct rte_mempool *pool;
    uint16_t port;
    /* Bytes of a message in a frame. */
    uint16_t payload;
};

static const uint8_t HEADERS[HEADER] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45};

/* `mtu`: of an IP packet. EAL runs already. 0, or a negative errno. */
int bare_open(struct bare *bare, const char *device, const char *arguments, uint16_t mtu, uint16_t descriptors) {
    struct rte_eth_conf conf;
    memset(&conf, 0, sizeof conf);
    int failure = rte_vdev_init(device, arguments);
    if (failure != 0)
        return failure;
    if (rte_eth_dev_get_port_by_name(device, &bare->port) != 0)
        return -ENODEV;
    bare->payload = mtu - 28;
    bare->pool = rte_pktmbuf_pool_create(device, BUFFERS, 256, 0, mtu + 18 + RTE_PKTMBUF_HEADROOM, -1);
    if (bare->pool == NULL)
        return -ENOMEM;
    failure = rte_eth_dev_configure(bare->port, 1, 1, &conf);
    if (failure == 0)
        failure = rte_eth_rx_queue_setup(bare->port, 0, descriptors, 0, NULL, bare->pool);
    if (failure == 0)
        failure = rte_eth_tx_queue_setup(bare->port, 0, descriptors, 0, NULL);
    return failure;
}

/* A client fails as long as its server is not there. */
int bare_start(const struct bare *bare) { return rte_eth_dev_start(bare->port); }

int bare_is_up(const struct bare *bare) {
    struct rte_eth_link link = {0};
    return rte_eth_link_get_nowait(bare->port, &link) == 0 && link.link_status != 0;
}

void bare_close(const struct bare *bare, const char *device) {
    rte_eth_dev_stop(bare->port);
    rte_eth_dev_close(bare->port);
    rte_vdev_uninit(device);
    rte_mempool_free(bare->pool);
}

static uint64_t deadline(void) { return rte_rdtsc() + PATIENCE_S * rte_get_tsc_hz(); }

static int push(const struct bare *bare, struct rte_mbuf **mbufs, uint16_t count) {
    uint16_t sent = rte_eth_tx_burst(bare->port, 0, mbufs, count);
    if (sent == count)
        return 0;
    for (uint64_t end = deadline(); sent < count && rte_rdtsc() < end;)
        sent += rte_eth_tx_burst(bare->port, 0, mbufs + sent, count - sent);
    rte_pktmbuf_free_bulk(mbufs + sent, count - sent);
    return sent == count ? 0 : -ETIMEDOUT;
}

/* Waits for frames. */
static inline uint16_t pull(const struct bare *bare, struct rte_mbuf **mbufs, uint16_t most) {
    uint64_t end = 0;
    for (;;) {
        for (int look = 0; look < 4096; look++) {
            uint16_t got = rte_eth_rx_burst(bare->port, 0, mbufs, most);
            if (got > 0)
                return got;
        }
        if (end == 0)
            end = deadline();
        else if (rte_rdtsc() > end)
            return 0;
    }
}

static uint32_t frames(const struct bare *bare, uint32_t size) {
    return size == 0 ? 1 : (size + bare->payload - 1) / bare->payload;
}

/* Sends a message, copied behind a header in each frame. `message` may be NULL: then frames are only as long. */
int bare_send(const struct bare *bare, const uint8_t *message, uint32_t size) {
    struct rte_mbuf *mbufs[BURST];
    uint32_t left = frames(bare, size), done = 0;
    while (left > 0) {
        uint16_t count = left < BURST ? (uint16_t)left : BURST;
        if (rte_pktmbuf_alloc_bulk(bare->pool, mbufs, count) != 0)
            return -ENOMEM;
        for (uint16_t i = 0; i < count; i++) {
            uint32_t now = size - done < bare->payload ? size - done : bare->payload;
            mbufs[i]->data_len = (uint16_t)(HEADER + now);
            mbufs[i]->pkt_len = HEADER + now;
            if (message != NULL) {
                uint8_t *data = rte_pktmbuf_mtod(mbufs[i], uint8_t *);
                memcpy(data, HEADERS, HEADER);
                memcpy(data + HEADER, message + done, now);
            }
            done += now;
        }
        int failure = push(bare, mbufs, count);
        if (failure != 0)
            return failure;
        left -= count;
    }
    return 0;
}

/* Receives a message, copied to its place; `to` may be NULL: then frames are only counted. */
int bare_receive(const struct bare *bare, uint8_t *to, uint32_t size) {
    struct rte_mbuf *mbufs[BURST];
    uint32_t left = frames(bare, size), done = 0;
    while (left > 0) {
        uint16_t got = pull(bare, mbufs, left < BURST ? (uint16_t)left : BURST);
        if (got == 0)
            return -ETIMEDOUT;
        for (uint16_t i = 0; i < got; i++) {
            uint32_t now = mbufs[i]->data_len - HEADER;
            if (to != NULL && now <= size - done) {
                memcpy(to + done, rte_pktmbuf_mtod(mbufs[i], const uint8_t *) + HEADER, now);
                done += now;
            }
        }
        rte_pktmbuf_free_bulk(mbufs, got);
        left -= got;
    }
    return 0;
}
