/* What bindgen reads: the headers, and the inline functions and macros of DPDK that Rust cannot call, as functions. */
#ifndef HIKYAKU_DPDK_SHIM_H
#define HIKYAKU_DPDK_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include <rte_config.h>
#include <rte_alarm.h>
#include <rte_bus_vdev.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>

/* Constants that are expressions in DPDK, which bindgen does not evaluate. */
enum {
    DPDK_MBUF_DEFAULT_ROOM = RTE_MBUF_DEFAULT_BUF_SIZE,
    DPDK_NO_LCORE = LCORE_ID_ANY,
};
static const uint64_t DPDK_TX_OFFLOAD_UDP_CHECKSUM = RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
static const uint64_t DPDK_TX_OFFLOAD_MULTI_SEGS = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
static const uint64_t DPDK_RX_OFFLOAD_UDP_CHECKSUM = RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
static const uint64_t DPDK_RX_OFFLOAD_SCATTER = RTE_ETH_RX_OFFLOAD_SCATTER;
static const uint64_t DPDK_RX_L4_CHECKSUM_MASK = RTE_MBUF_F_RX_L4_CKSUM_MASK;
static const uint64_t DPDK_RX_L4_CHECKSUM_GOOD = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
static const uint64_t DPDK_RX_L4_CHECKSUM_BAD = RTE_MBUF_F_RX_L4_CKSUM_BAD;
static const uint64_t DPDK_RX_L4_CHECKSUM_NONE = RTE_MBUF_F_RX_L4_CKSUM_NONE;
static const uint64_t DPDK_RX_VLAN_STRIPPED = RTE_MBUF_F_RX_VLAN_STRIPPED;
/* Hashes over addresses and UDP ports; over addresses alone. */
static const uint64_t DPDK_RSS_UDP = RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP;
static const uint64_t DPDK_RSS_IP = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_IPV6;
static const uint32_t DPDK_MQ_RX_RSS = RTE_ETH_MQ_RX_RSS;

/* Where in an rte_mbuf its fields are: buf_addr, data_off, ol_flags, data_len, pkt_len. */
enum {
    DPDK_MBUF_BUFFER = offsetof(struct rte_mbuf, buf_addr),
    DPDK_MBUF_START = offsetof(struct rte_mbuf, data_off),
    DPDK_MBUF_FLAGS = offsetof(struct rte_mbuf, ol_flags),
    DPDK_MBUF_DATA_LEN = offsetof(struct rte_mbuf, data_len),
    DPDK_MBUF_PACKET_LEN = offsetof(struct rte_mbuf, pkt_len),
};

/* rte_errno of the calling thread. */
int dpdk_errno(void);
/* rte_lcore_id(). */
unsigned int dpdk_lcore_id(void);
/* rte_eth_rx_burst(); the headers of each packet are on their way into the cache. */
uint16_t dpdk_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
/* rte_eth_tx_burst(). */
uint16_t dpdk_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
/* rte_pktmbuf_alloc_bulk(); each gets `len` bytes (at most its room) of no particular content. 0, or a negative errno. */
int dpdk_alloc(struct rte_mempool *pool, uint32_t len, struct rte_mbuf **mbufs, unsigned int count);
/* rte_pktmbuf_alloc(), for one of `len` bytes, which must be no more than its room. NULL: there is none. */
struct rte_mbuf *dpdk_alloc_one(struct rte_mempool *pool, uint32_t len);
/* Cuts a packet of one segment to `len` bytes, at most what it has. */
void dpdk_cut(struct rte_mbuf *mbuf, uint16_t len);
/* rte_pktmbuf_free(). */
void dpdk_free(struct rte_mbuf *mbuf);
/* Asks the port for the UDP checksum: l2_len and l3_len are bytes of the headers of Ethernet and IP (40: IPv6). */
void dpdk_ask_udp_checksum(struct rte_mbuf *mbuf, uint16_t l2_len, uint16_t l3_len);
/* Copies a packet of several segments; gives the bytes copied, at most `room`. */
uint32_t dpdk_gather(const struct rte_mbuf *mbuf, uint8_t *to, uint32_t room);
/* Chains an mbuf of `pool` behind `head` that holds no bytes of its own but refers to these (at most 65535), which must stay
   until the mbuf has been freed; `shared` has one reference more, and one less then. 0, or a negative errno. */
int dpdk_attach(struct rte_mbuf *head, struct rte_mempool *pool, void *bytes, uint16_t len,
                struct rte_mbuf_ext_shared_info *shared);
/* Makes `shared` ready for dpdk_attach(), with no references. */
void dpdk_share(struct rte_mbuf_ext_shared_info *shared);
/* References that have not come back. */
uint16_t dpdk_shared(const struct rte_mbuf_ext_shared_info *shared);
/* Links `next` and what follows it behind `head`. 0, or a negative errno; then nothing has changed. */
int dpdk_chain(struct rte_mbuf *head, struct rte_mbuf *next);
/* Makes a rule by which UDP datagrams over IP of this version (4 or 6) to this port come to this queue. 0, or a negative
   errno; `valid` says whether the device had nothing against the rule before it was to be made. */
int dpdk_steer(uint16_t port, int ip_version, uint16_t udp_port, uint16_t queue, struct rte_flow **rule, int *valid);
/* rte_flow_destroy(). */
int dpdk_unsteer(uint16_t port, struct rte_flow *rule);
/* Spreads what no rule steers over the first `queues` queues: the redirection table of `size` places is filled with them
   in turn. 0, or a negative errno. */
int dpdk_spread(uint16_t port, uint16_t size, uint16_t queues);
/* Reads the redirection table: `queues` has `size` places. 0, or a negative errno. */
int dpdk_spread_of(uint16_t port, uint16_t size, uint16_t *queues);
/* rte_pktmbuf_data_room_size(). */
uint16_t dpdk_data_room(struct rte_mempool *pool);
/* Puts all mbufs of a pool back into it, in whatever state a process that was killed has left it: none may be in use. 0, or a
   negative errno. */
int dpdk_refill(struct rte_mempool *pool);

#endif
