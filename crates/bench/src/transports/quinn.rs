//! QUIC by quinn, with a certificate of its own: one connection and one stream each way, always encrypted.
//!
//! Its runtime sleeps in the kernel whatever `--wait` says.

use std::{
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use quinn::{
    ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig, TransportConfig, VarInt,
    rustls::{
        RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
};

use crate::transports::{
    link::{Hub, Spoke},
    settings::Offer,
    sizes::{Messages, Sizes},
    timeout::{LIMIT, timed_out},
};

/// The name in the certificate.
const NAME: &str = "hikyaku-bench";

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("quinn: {error}"))
}

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    // Between its rounds a connection is silent for as long as the others need.
    config.max_idle_timeout(None);
    config
        .stream_receive_window(VarInt::from_u32(16 << 20))
        .receive_window(VarInt::from_u32(64 << 20));
    config.send_window(16 << 20);
    Arc::new(config)
}

/// Waits for a result, but not for ever.
async fn until_timeout<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(LIMIT, work)
        .await
        .unwrap_or_else(|_| Err(timed_out("quinn")))
}

/// One stream each way.
struct Pair {
    send: SendStream,
    receive: RecvStream,
    // Dropping the handle would close the connection.
    _connection: Connection,
    message: Vec<u8>,
}

impl Pair {
    async fn echo(&mut self, size: usize, count: usize) -> io::Result<()> {
        self.message.resize(size, 0);
        for _ in 0..count {
            self.receive.read_exact(&mut self.message).await.map_err(other)?;
            self.send.write_all(&self.message).await.map_err(other)?;
        }
        Ok(())
    }

    async fn sink(&mut self, size: usize, window: usize, count: usize) -> io::Result<()> {
        self.message.resize(size, 0);
        for index in 0..count {
            self.receive.read_exact(&mut self.message).await.map_err(other)?;
            if (index + 1) % window == 0 {
                self.send.write_all(&[1]).await.map_err(other)?;
            }
        }
        Ok(())
    }
}

/// The answering end.
pub(crate) struct QuinnHub {
    runtime: Runtime,
    endpoint: Endpoint,
    certificate: Vec<u8>,
    pairs: Vec<Pair>,
    /// Handshakes that go on while a spoke is told that it is welcome.
    accepting: JoinSet<io::Result<Pair>>,
}

impl QuinnHub {
    /// Binds an endpoint with a fresh certificate.
    pub(crate) fn open(local: IpAddr) -> io::Result<Self> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(other)?;
        let certificate = made.cert.der().to_vec();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let chain = vec![CertificateDer::from(certificate.clone())];
        let mut config = ServerConfig::with_single_cert(chain, key).map_err(other)?;
        config.transport_config(transport());
        // A thread of its own: what the hub wrote last must leave even when no spoke waits for the hub any more.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let endpoint = {
            let _inside = runtime.enter();
            Endpoint::server(config, SocketAddr::new(local, 0))?
        };
        Ok(Self {
            runtime,
            endpoint,
            certificate,
            pairs: Vec::new(),
            accepting: JoinSet::new(),
        })
    }

    /// Finishes the handshakes.
    fn settle(&mut self) -> io::Result<()> {
        while !self.accepting.is_empty() {
            let joined = self.runtime.block_on(until_timeout(async {
                self.accepting
                    .join_next()
                    .await
                    .ok_or_else(|| other("no handshake"))?
                    .map_err(other)?
            }))?;
            self.pairs.push(joined);
        }
        Ok(())
    }

    /// Lets all conversations go on at the same time.
    fn together<F>(&mut self, spokes: usize, work: impl Fn(Pair) -> F) -> io::Result<()>
    where
        F: Future<Output = io::Result<Pair>> + Send + 'static,
    {
        let rest = self.pairs.split_off(spokes);
        let mut tasks = JoinSet::new();
        let pairs = std::mem::take(&mut self.pairs);
        self.runtime.block_on(async {
            for pair in pairs {
                tasks.spawn(work(pair));
            }
            while let Some(done) = tasks.join_next().await {
                self.pairs.push(done.map_err(other)??);
            }
            Ok::<_, io::Error>(())
        })?;
        self.pairs.extend(rest);
        Ok(())
    }
}

impl Hub for QuinnHub {
    fn offer(&self) -> io::Result<Offer> {
        Ok(Offer {
            addresses: vec![self.endpoint.local_addr()?],
            extra: self.certificate.clone(),
        })
    }

    fn join(&mut self, _spoke: &Offer) -> io::Result<()> {
        let endpoint = self.endpoint.clone();
        let accept = async move {
            let incoming = endpoint
                .accept()
                .await
                .ok_or_else(|| other("the endpoint has closed"))?;
            let connection = incoming.await.map_err(other)?;
            let (send, mut receive) = connection.accept_bi().await.map_err(other)?;
            receive.read_exact(&mut [0]).await.map_err(other)?;
            let mut pair = Pair {
                send,
                receive,
                _connection: connection,
                message: Vec::new(),
            };
            pair.send.write_all(&[0]).await.map_err(other)?;
            Ok(pair)
        };
        self.accepting.spawn_on(accept, self.runtime.handle());
        Ok(())
    }

    fn joined(&mut self) -> io::Result<()> {
        self.settle()
    }

    fn echo(&mut self, sizes: &Sizes, count: usize, spokes: usize) -> io::Result<()> {
        let size = sizes.same()?;
        let each = count / spokes;
        self.together(spokes, move |mut pair| async move {
            until_timeout(pair.echo(size, each)).await?;
            Ok(pair)
        })
    }

    fn sink(&mut self, sizes: &Sizes, window: usize, count: usize, spokes: usize) -> io::Result<()> {
        let size = sizes.same()?;
        let each = count / spokes;
        self.together(spokes, move |mut pair| async move {
            until_timeout(pair.sink(size, window, each)).await?;
            Ok(pair)
        })
    }
}

/// The asking end.
pub(crate) struct QuinnSpoke {
    runtime: Runtime,
    endpoint: Endpoint,
    hub: SocketAddr,
    pair: Option<Pair>,
}

impl QuinnSpoke {
    /// Binds an endpoint that trusts the hub's certificate.
    pub(crate) fn open(local: IpAddr, hub: &Offer) -> io::Result<Self> {
        let [address] = hub.addresses[..] else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(hub.extra.clone())).map_err(other)?;
        let mut config = ClientConfig::with_root_certificates(Arc::new(roots)).map_err(other)?;
        config.transport_config(transport());
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let endpoint = {
            let _inside = runtime.enter();
            let mut endpoint = Endpoint::client(SocketAddr::new(local, 0))?;
            endpoint.set_default_client_config(config);
            endpoint
        };
        Ok(Self {
            runtime,
            endpoint,
            hub: address,
            pair: None,
        })
    }
}

impl Spoke for QuinnSpoke {
    fn offer(&self) -> io::Result<Offer> {
        Ok(Offer {
            addresses: vec![self.endpoint.local_addr()?],
            extra: Vec::new(),
        })
    }

    fn ready(&mut self) -> io::Result<()> {
        let (endpoint, hub) = (&self.endpoint, self.hub);
        let pair = self.runtime.block_on(until_timeout(async {
            let connection = endpoint.connect(hub, NAME).map_err(other)?.await.map_err(other)?;
            let (mut send, mut receive) = connection.open_bi().await.map_err(other)?;
            // A stream exists for the other end only when something has come through it.
            send.write_all(&[0]).await.map_err(other)?;
            receive.read_exact(&mut [0]).await.map_err(other)?;
            Ok(Pair {
                send,
                receive,
                _connection: connection,
                message: Vec::new(),
            })
        }))?;
        self.pair = Some(pair);
        Ok(())
    }

    fn ping(&mut self, message: &[u8], seen: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let pair = self.pair.as_mut().ok_or_else(|| other("not connected"))?;
        pair.message.resize(message.len(), 0);
        self.runtime.block_on(until_timeout(async {
            pair.send.write_all(message).await.map_err(other)?;
            pair.receive.read_exact(&mut pair.message).await.map_err(other)
        }))?;
        seen(&pair.message);
        Ok(())
    }

    fn stream(&mut self, messages: &Messages, window: usize, _spokes: usize) -> io::Result<()> {
        let message = messages.same()?;
        let pair = self.pair.as_mut().ok_or_else(|| other("not connected"))?;
        self.runtime.block_on(until_timeout(async {
            for _ in 0..window {
                pair.send.write_all(message).await.map_err(other)?;
            }
            pair.receive.read_exact(&mut [0]).await.map_err(other)
        }))
    }
}
