//! `libmpi.so.12`: MPI over hikyaku for programs that are compiled for MPICH's ABI.

use hikyaku_capi::abi::Mpich;

hikyaku_capi::export!(Mpich);
hikyaku_capi::only_mpich!(Mpich);
