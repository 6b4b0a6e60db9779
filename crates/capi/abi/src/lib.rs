//! `libmpi_abi.so.1`: MPI over hikyaku for programs that are compiled for the ABI of MPI 5.0.

use hikyaku_capi::abi::Standard;

hikyaku_capi::export!(Standard);
