//! The macros that write exported functions out of tables.

/// Exports all functions for one ABI; for the library packages.
#[macro_export]
macro_rules! export {
    ($abi:ty) => {
        $crate::environment!($abi);
        $crate::error_handlers!($abi);
        $crate::point_to_point!($abi);
        $crate::persistent!($abi);
        $crate::requests!($abi);
        $crate::probes!($abi);
        $crate::statuses!($abi);
        $crate::communicators!($abi);
        $crate::groups!($abi);
        $crate::datatypes!($abi);
        $crate::constructors!($abi);
        $crate::operations!($abi);
        $crate::collective_calls!($abi);
        $crate::topologies!($abi);
        $crate::windows!($abi);
        $crate::remote_memory!($abi);
        $crate::conversions!($abi);
        $crate::attributes!($abi);
        $crate::infos!($abi);
        $crate::error_codes!($abi);
        $crate::fortran!($abi);
        $crate::generalized!($abi);
        $crate::external32!($abi);
        $crate::sessions!($abi);
        $crate::tools!($abi);
        $crate::spawning!($abi);
        $crate::ports!($abi);
        $crate::removed!($abi);
        $crate::missing_calls!($abi);
    };
}

/// Functions by their table.
#[doc(hidden)]
#[macro_export]
macro_rules! functions {
    ($abi:ty; $($name:literal $(+ $c:ident)? => $module:ident::$body:ident $arguments:tt;)*) => {
        $(
            $crate::function!($abi, Narrow, [$name], $module::$body, $arguments, (), ());
            $($crate::function!($abi, Wide, [$name "_" $c], $module::$body, $arguments, (), ());)?
        )*
    };
}

/// Collectives by their table: the name of the function that waits, and the end of the name of the one that begins.
#[doc(hidden)]
#[macro_export]
macro_rules! collectives {
    ($abi:ty; $($name:literal $immediate:literal $(+ $c:ident)? => $module:ident::$body:ident $arguments:tt;)*) => {
        $(
            $crate::collective!($abi, Narrow, [$name], ["I" $immediate], [$name "_init"], $module::$body, $arguments);
            $($crate::collective!(
                $abi, Wide, [$name "_" $c], ["I" $immediate "_" $c], [$name "_init_" $c], $module::$body, $arguments
            );)?
        )*
    };
}

/// The three functions of a collective.
#[doc(hidden)]
#[macro_export]
macro_rules! collective {
    (
        $abi:ty, $width:ident, $blocking:tt, $immediate:tt, $persistent:tt,
        $module:ident::$body:ident, $arguments:tt
    ) => {
        $crate::function!($abi, $width, $blocking, $module::$body, $arguments, (), ($crate::calls::Then::Wait));
        $crate::function!(
            $abi, $width, $immediate, $module::$body, $arguments,
            (request: $crate::border::InOut<$crate::objects::RequestObject>),
            ($crate::calls::Then::Begin(request))
        );
        $crate::function!(
            $abi, $width, $persistent, $module::$body, $arguments,
            (
                _info: $crate::objects::Info,
                request: $crate::border::InOut<$crate::objects::RequestObject>
            ),
            ($crate::calls::Then::Plan(request))
        );
    };
}

/// One function, under both of its names. The body gets the first arguments and the expressions of the last list.
#[doc(hidden)]
#[macro_export]
macro_rules! function {
    (
        $abi:ty, $width:ident, [$($name:tt)+], $module:ident::$body:ident,
        ($($argument:ident: $type:ty),* $(,)?), ($($more:ident: $more_type:ty),*), ($($last:expr),*)
    ) => {
        const _: () = {
            use $crate::border::{Argument, Call};
            #[allow(unused_imports, reason = "functions without arguments do not need it")]
            use $crate::border::$width as Width;

            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "as MPI has it")]
            unsafe fn run(
                $($argument: <$type as Argument<$abi, Width>>::Native,)*
                $($more: <$more_type as Argument<$abi, Width>>::Native,)*
            ) -> ::core::ffi::c_int {
                const CALL: Call = Call::of::<$abi>($crate::named!("MPI_" $($name)+));
                // SAFETY: the program passes what MPI demands.
                $(let $argument = unsafe { <$type as Argument<$abi, Width>>::take($argument) };)*
                // SAFETY: as above.
                $(let $more = unsafe { <$more_type as Argument<$abi, Width>>::take($more) };)*
                let scope = None;
                $(let scope = <$type as Argument<$abi, Width>>::scope(&$argument).filter(|_| scope.is_none()).or(scope);)*
                $(if let Some(class) = <$type as Argument<$abi, Width>>::fault(&$argument) {
                    return CALL.end(scope, Err(CALL.refuse(class, stringify!($argument))));
                })*
                $(if let Some(class) = <$more_type as Argument<$abi, Width>>::fault(&$more) {
                    return CALL.end(scope, Err(CALL.refuse(class, stringify!($more))));
                })*
                let result = $crate::calls::$module::$body(CALL, $($argument,)* $($last),*);
                CALL.end(scope, result)
            }

            #[unsafe(export_name = $crate::named!("MPI_" $($name)+))]
            #[allow(clippy::too_many_arguments, reason = "as MPI has it")]
            unsafe extern "C-unwind" fn function(
                $($argument: <$type as Argument<$abi, Width>>::Native,)*
                $($more: <$more_type as Argument<$abi, Width>>::Native,)*
            ) -> ::core::ffi::c_int {
                // SAFETY: the program passes what MPI demands.
                unsafe { run($($argument,)* $($more),*) }
            }

            #[unsafe(export_name = $crate::named!("PMPI_" $($name)+))]
            #[allow(clippy::too_many_arguments, reason = "as MPI has it")]
            unsafe extern "C-unwind" fn profiled(
                $($argument: <$type as Argument<$abi, Width>>::Native,)*
                $($more: <$more_type as Argument<$abi, Width>>::Native,)*
            ) -> ::core::ffi::c_int {
                // SAFETY: the program passes what MPI demands.
                unsafe { run($($argument,)* $($more),*) }
            }
        };
    };
}

/// A name out of its parts; `c` is the ending of functions with counts of type `MPI_Count`.
#[doc(hidden)]
#[macro_export]
macro_rules! named {
    ($($part:tt)+) => {
        concat!($($crate::part!($part)),+)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! part {
    (c) => {
        "c"
    };
    ($part:literal) => {
        $part
    };
}

/// Functions of the interface of tools by their table: null pointers stand for results that the program does not want,
/// and errors go to no handler.
#[doc(hidden)]
#[macro_export]
macro_rules! tool_functions {
    ($abi:ty; $($name:literal => $module:ident::$body:ident ($($argument:ident: $type:ty),* $(,)?);)*) => {
        $(const _: () = {
            #[allow(unused_imports, reason = "functions without arguments do not need it")]
            use $crate::border::{Argument, Narrow};

            #[allow(clippy::too_many_arguments, reason = "as MPI has it")]
            unsafe fn run($($argument: <$type as Argument<$abi, Narrow>>::Native),*) -> ::core::ffi::c_int {
                // SAFETY: the program passes what MPI demands.
                $(let $argument = unsafe { <$type as Argument<$abi, Narrow>>::take($argument) };)*
                let told = $crate::calls::tools::$module::$body($($argument),*);
                $crate::calls::tools::trouble::end(<$abi as $crate::abi::Abi>::ENCODING, told)
            }

            #[unsafe(export_name = concat!("MPI_", $name))]
            #[allow(clippy::too_many_arguments, reason = "as MPI has it")]
            unsafe extern "C-unwind" fn function(
                $($argument: <$type as Argument<$abi, Narrow>>::Native),*
            ) -> ::core::ffi::c_int {
                // SAFETY: the program passes what MPI demands.
                unsafe { run($($argument),*) }
            }

            #[unsafe(export_name = concat!("PMPI_", $name))]
            #[allow(clippy::too_many_arguments, reason = "as MPI has it")]
            unsafe extern "C-unwind" fn profiled(
                $($argument: <$type as Argument<$abi, Narrow>>::Native),*
            ) -> ::core::ffi::c_int {
                // SAFETY: the program passes what MPI demands.
                unsafe { run($($argument),*) }
            }
        };)*
    };
}

/// Functions whose result is no error code: name, arguments as C has them, result, expression.
#[doc(hidden)]
#[macro_export]
macro_rules! values {
    ($abi:ty; $($name:literal ($($argument:ident: $type:ty),*) -> $result:ty => $value:expr;)*) => {
        $(const _: () = {
            #[unsafe(export_name = concat!("MPI_", $name))]
            extern "C" fn function($($argument: $type),*) -> $result {
                $value
            }

            #[unsafe(export_name = concat!("PMPI_", $name))]
            extern "C" fn profiled($($argument: $type),*) -> $result {
                $value
            }
        };)*
    };
}

/// Functions that are not there yet: they fail, whatever their arguments are.
#[doc(hidden)]
#[macro_export]
macro_rules! missing {
    ($abi:ty; $($name:literal $(+ $c:ident)?)*) => {
        $(
            $crate::missing_one!($abi, [$name]);
            $($crate::missing_one!($abi, [$name "_" $c]);)?
        )*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! missing_one {
    ($abi:ty, [$($name:tt)+]) => {
        const _: () = {
            const CALL: $crate::border::Call = $crate::border::Call::of::<$abi>($crate::named!("MPI_" $($name)+));

            // The caller takes away what it has passed, so a function need not know its arguments.
            #[unsafe(export_name = $crate::named!("MPI_" $($name)+))]
            extern "C" fn function() -> ::core::ffi::c_int {
                $crate::calls::missing::fail(CALL)
            }

            #[unsafe(export_name = $crate::named!("PMPI_" $($name)+))]
            extern "C" fn profiled() -> ::core::ffi::c_int {
                $crate::calls::missing::fail(CALL)
            }
        };
    };
}
