//! The PMI client against recorded launchers, and against bytes that no launcher would send.

use std::{
    io::{Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    thread,
};

use proptest::prelude::*;

use super::{
    BootstrapError, Cause, Environment, Exchange, Identity, Program, exchange::Starter, message::Version, pmi::Pmi,
};

/// The exchange of `mpiexec.hydra` 4.0.2 with rank 0 of 2, recorded, with the keys and values of these tests. `>` is
/// sent by the client, `<` by the launcher.
const HYDRA: &[&str] = &[
    "> cmd=init pmi_version=1 pmi_subversion=1\n",
    "< cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
    "> cmd=get_maxes\n",
    "< cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n",
    "> cmd=get_my_kvsname\n",
    "< cmd=my_kvsname kvsname=kvs_17685_0_574400437_vm\n",
    "> cmd=put kvsname=kvs_17685_0_574400437_vm key=hk.0.a value=6869\n",
    "< cmd=put_result rc=0 msg=success\n",
    "> cmd=barrier_in\n",
    "< cmd=barrier_out\n",
    "> cmd=get kvsname=kvs_17685_0_574400437_vm key=hk.1.a\n",
    "< cmd=get_result rc=0 msg=success value=686f\n",
    "> cmd=get kvsname=kvs_17685_0_574400437_vm key=hk.1.none\n",
    "< cmd=get_result rc=-1 msg=key_hk.1.none_not_found value=unknown\n",
    "> cmd=finalize\n",
    "< cmd=finalize_ack\n",
];

/// The same of Slurm 22.05, `srun --mpi=pmi2`, which aligns lengths to the left.
const SLURM: &[&str] = &[
    "> cmd=init pmi_version=2 pmi_subversion=0\n",
    "< cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n",
    ">     51cmd=fullinit;pmijobid=3.0;pmirank=0;threaded=FALSE;",
    "< 114   cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=0;size=2;appnum=-1;debugged=FALSE;pmiverbose=FALSE;",
    ">     14cmd=job-getid;",
    "< 38    cmd=job-getid-response;rc=0;jobid=3.0;",
    ">     34cmd=kvs-put;key=hk.0.a;value=6869;",
    "< 26    cmd=kvs-put-response;rc=0;",
    ">     14cmd=kvs-fence;",
    "< 28    cmd=kvs-fence-response;rc=0;",
    ">     33cmd=kvs-get;jobid=3.0;key=hk.1.a;",
    "< 48    cmd=kvs-get-response;rc=0;found=TRUE;value=686f;",
    ">     36cmd=kvs-get;jobid=3.0;key=hk.1.none;",
    "< 38    cmd=kvs-get-response;rc=0;found=FALSE;",
    ">     13cmd=finalize;",
    "< 27    cmd=finalize-response;rc=0;",
];

/// What is spawned below, of hydra: its commands have many lines. (`init` and what follows as above.)
const HYDRA_SPAWNS: &[&str] = &[
    "> cmd=init pmi_version=1 pmi_subversion=1\n",
    "< cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
    "> cmd=get_maxes\n",
    "< cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n",
    "> cmd=get_my_kvsname\n",
    "< cmd=my_kvsname kvsname=kvs_1\n",
    "> mcmd=spawn\nnprocs=2\nexecname=./one\ntotspawns=2\nspawnssofar=1\nargcnt=2\narg1=a b\narg2=c=d\npreput_num=1\n",
    "> preput_key_0=hikyaku-contact\npreput_val_0=word\ninfo_num=0\nendcmd\n",
    "> mcmd=spawn\nnprocs=1\nexecname=two\ntotspawns=2\nspawnssofar=2\nargcnt=0\npreput_num=1\n",
    "> preput_key_0=hikyaku-contact\npreput_val_0=word\ninfo_num=0\nendcmd\n",
    "< cmd=spawn_result rc=0\n",
    "> mcmd=spawn\nnprocs=1\nexecname=two\ntotspawns=1\nspawnssofar=1\nargcnt=0\npreput_num=1\n",
    "> preput_key_0=hikyaku-contact\npreput_val_0=word\ninfo_num=0\nendcmd\n",
    "< cmd=spawn_result rc=-1 msg=no_room\n",
];

/// The same of version 2.
const SLURM_SPAWNS: &[&str] = &[
    "> cmd=init pmi_version=2 pmi_subversion=0\n",
    "< cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n",
    ">     51cmd=fullinit;pmijobid=3.0;pmirank=0;threaded=FALSE;",
    "< 114   cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=0;size=2;appnum=-1;debugged=FALSE;pmiverbose=FALSE;",
    ">     14cmd=job-getid;",
    "< 38    cmd=job-getid-response;rc=0;jobid=3.0;",
    ">    177cmd=spawn;ncmds=2;preputcount=1;ppkey0=hikyaku-contact;ppval0=word;subcmd=./one;maxprocs=2;argc=2;argv0=a b;",
    "> argv1=c=d;infokeycount=0;subcmd=two;maxprocs=1;argc=0;infokeycount=0;",
    "< 42    cmd=spawn-response;rc=0;jobid=3.0;nerrs=0;",
    ">    111cmd=spawn;ncmds=1;preputcount=1;ppkey0=hikyaku-contact;ppval0=word;subcmd=two;maxprocs=1;argc=0;infokeycount=0;",
    "< 40    cmd=spawn-response;rc=14;errmsg=no_room;",
];

/// Plays the launcher; fails if the client deviates from the recording.
fn play(script: &'static [&'static str], mut launcher: UnixStream) {
    for line in script {
        let (who, text) = line.split_at(2);
        if who == "< " {
            launcher.write_all(text.as_bytes()).unwrap();
        } else {
            let mut said = vec![0; text.len()];
            launcher.read_exact(&mut said).unwrap();
            assert_eq!(String::from_utf8_lossy(&said), text);
        }
    }
}

fn join(client: &UnixStream, version: Version, timeout: &str) -> Result<(Pmi, Identity), BootstrapError> {
    let environment: Environment = [
        ("PMI_FD", client.as_raw_fd().to_string()),
        ("PMI_RANK", "0".to_owned()),
        ("PMI_SIZE", "2".to_owned()),
        ("PMI_JOBID", "3.0".to_owned()),
        ("HIKYAKU_BOOTSTRAP_TIMEOUT", timeout.to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    let timeout = environment.timeout().unwrap();
    // In some forms the launcher provides the version, so it must not depend on this argument.
    Pmi::join(&environment, version, timeout)
}

fn replay(script: &'static [&'static str], version: Version) {
    let (client, launcher) = UnixStream::pair().unwrap();
    let launcher = thread::spawn(move || play(script, launcher));
    let (mut pmi, identity) = join(&client, version, "20").unwrap();
    assert_eq!((identity.rank, identity.size, identity.app), (0, 2, 0));
    pmi.put("a", b"hi").unwrap();
    pmi.fence().unwrap();
    assert_eq!(pmi.get(1, "a").unwrap().unwrap(), b"ho");
    assert_eq!(pmi.get(1, "none").unwrap(), None);
    pmi.finalize().unwrap();
    launcher.join().unwrap();
}

/// Spawns two programs, and then one for which there is no room.
fn replay_spawn(script: &'static [&'static str], version: Version) {
    let (client, launcher) = UnixStream::pair().unwrap();
    let launcher = thread::spawn(move || play(script, launcher));
    let (mut pmi, _) = join(&client, version, "20").unwrap();
    let program = |words: &[&str], processes| Program {
        command: words.iter().map(|&word| word.to_owned()).collect(),
        processes,
    };
    let [one, two] = [program(&["./one", "a b", "c=d"], 2), program(&["two"], 1)];
    pmi.start(&[one, two.clone()], "word").unwrap();
    let refused = pmi.start(std::slice::from_ref(&two), "word").unwrap_err();
    assert!(refused.to_string().contains("the launcher says: no room"), "{refused}");
    // What would be another line is not sent.
    let refused = pmi.start(&[program(&["two", "a\nb"], 1)], "word").unwrap_err();
    assert!(matches!(refused.cause(), Cause::Argument(_)), "{refused}");
    launcher.join().unwrap();
}

#[test]
fn hydra_spawns() {
    replay_spawn(HYDRA_SPAWNS, Version::One);
}

#[test]
fn slurm_spawns() {
    replay_spawn(SLURM_SPAWNS, Version::Two);
}

#[test]
fn hydra() {
    replay(HYDRA, Version::One);
}

#[test]
fn slurm() {
    replay(SLURM, Version::Two);
}

/// Joins while the launcher says `answer` and then hangs up.
fn told(answer: &[u8], version: Version) -> Result<(), BootstrapError> {
    let (client, mut launcher) = UnixStream::pair().unwrap();
    launcher.write_all(answer).unwrap();
    launcher.shutdown(std::net::Shutdown::Write).unwrap();
    join(&client, version, "20").map(drop)
}

#[test]
fn a_launcher_that_speaks_otherwise_is_quoted() {
    let said = |answer: &str| told(answer.as_bytes(), Version::One).unwrap_err().to_string();
    assert_eq!(
        said(""),
        "start-up (pmi1): agreeing on the version: the launcher has closed the connection"
    );
    assert!(said("hello\n").ends_with("'hello\\n' is no message: 'hello' is not name=value"));
    assert!(said("cmd=response_to_init rc=-1 msg=no_thanks\n").ends_with("the launcher says: no thanks"));
    assert!(said("cmd=maxes\n").ends_with("expected cmd=response_to_init, got 'cmd=maxes'"));
    let old = "cmd=response_to_init pmi_version=0 pmi_subversion=9\n";
    assert!(said(old).contains("expected version 1"), "{}", said(old));
}

#[test]
fn a_launcher_that_says_nothing_is_not_waited_for() {
    let (client, _launcher) = UnixStream::pair().unwrap();
    let error = join(&client, Version::Two, "0.1").map(drop).unwrap_err();
    assert!(matches!(error.cause(), Cause::TimedOut(_)), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_answer_ends_well(
        answer in proptest::collection::vec(any::<u8>(), 0..200),
        at in 0_usize..100,
        with in any::<u8>(),
    ) {
        let _ = told(&answer, Version::One);
        let _ = told(&answer, Version::Two);
        // And variations of the recordings.
        for (script, version) in [(HYDRA, Version::One), (SLURM, Version::Two)] {
            let recorded = script.iter().filter_map(|line| line.strip_prefix("< "));
            let mut bytes: Vec<u8> = recorded.flat_map(str::bytes).collect();
            bytes[at] = with;
            let _ = told(&bytes, version);
        }
    }
}
