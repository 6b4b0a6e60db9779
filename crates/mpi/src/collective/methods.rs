//! Writes the methods of collectives: for each one that waits, and one that only begins.

/// The second argument if there is something in the first one, otherwise the third.
macro_rules! either {
    ([] { $($yes:tt)* } { $($no:tt)* }) => { $($no)* };
    ([$($given:tt)+] { $($yes:tt)* } { $($no:tt)* }) => { $($yes)* };
}
pub(super) use either;

/// Methods of a trait. Each entry has: the documentation; the names of the two methods; the names that MPI gives them; what
/// is sent, what is received and the operation, where there is one; and what begins it: an unsafe call of `begin`.
macro_rules! methods {
    ($(
        $(#[$doc:meta])*
        $name:ident, $immediate:ident: $call:literal, $immediate_call:literal;
        $(send $send:ident: $Send:ident as $From:ident;)?
        $(receive $receive:ident: $Receive:ident as $Into:ident;)?
        $(operation $op:ident: $Op:ident;)?
        |$this:ident, $label:ident| $begin:expr;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// See the trait.
        fn $name<$(S: $Send + ?Sized,)? $(R: $Receive + ?Sized,)? $(O: $Op)?>(
            &self,
            $($send: &S,)?
            $($receive: &mut R,)?
            $($op: O)?
        ) -> Result<(), Error> {
            let ($this, $label) = (self, $call);
            $(let $send = $From::of($send);)?
            $(let $receive = $Into::of_mut($receive);)?
            $(let $op = &$op.erased();)?
            // SAFETY: all are borrowed until the operation has ended.
            unsafe { $begin }.wait().map(drop)
        }

        #[doc = concat!("Begins [`", stringify!($name), "`](Self::", stringify!($name), ") (`", $immediate_call, "`).")]
        fn $immediate<'a, $(S: 'a + $Send + ?Sized,)? $(R: 'a + $Receive + ?Sized,)? $(O: 'a + $Op,)? Sc: Scope<'a>>(
            &self,
            scope: Sc,
            $($send: &'a S,)?
            $($receive: &'a mut R,)?
            $($op: O)?
        ) -> Request<'a, either!([$($receive)?] { R } { S }), Sc> {
            let ($this, $label) = (self, $immediate_call);
            let data = either!([$($receive)?] { $(&raw mut *$receive)? } { $(&raw const *$send)? });
            $(let $send = $From::of($send);)?
            // SAFETY: just borrowed; what is derived from it is not used any more when `data` is.
            $(let $receive = $Into::of_mut(unsafe { &mut *data });)?
            $(let $op = &$op.erased();)?
            // SAFETY: all are borrowed for `'a`, and the scope ends the operation before that.
            let running = unsafe { $begin };
            Request::new(running, data, scope)
        }
    )*};
}
pub(super) use methods;
