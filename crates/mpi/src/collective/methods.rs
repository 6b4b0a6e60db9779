//! Writes the methods of collectives: for each one that waits, one that only begins, and one that plans it.

/// The second argument if there is something in the first one, otherwise the third.
macro_rules! either {
    ([] { $($yes:tt)* } { $($no:tt)* }) => { $($no)* };
    ([$($given:tt)+] { $($yes:tt)* } { $($no:tt)* }) => { $($yes)* };
}
pub(super) use either;

/// Methods of a trait. Each entry has: the documentation; the names of the three methods; the names that MPI gives the
/// first two; what is sent, what is received, counts of each rank's part and the operation, where there are some; and
/// the function of `begin` that describes it.
macro_rules! methods {
    ($(
        $(#[$doc:meta])*
        $name:ident, $immediate:ident, $persistent:ident: $call:literal, $immediate_call:literal;
        $(send $send:ident: $Send:ident as $From:ident;)?
        $(receive $receive:ident: $Receive:ident as $Into:ident;)?
        $(counts $counts:ident;)?
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
            $($counts: &[$crate::Count],)?
            $($op: O)?
        ) -> Result<(), Error> {
            let ($this, $label) = (self, $call);
            $(let $send = $From::of($send);)?
            $(let $receive = $Into::of_mut($receive);)?
            $(let $op = &$op.erased();)?
            // SAFETY: all are borrowed until the operation has ended.
            unsafe { $begin.begin() }.wait().map(drop)
        }

        #[doc = concat!("Begins [`", stringify!($name), "`](Self::", stringify!($name), ") (`", $immediate_call, "`).")]
        fn $immediate<'a, $(S: 'a + $Send + ?Sized,)? $(R: 'a + $Receive + ?Sized,)? $(O: 'a + $Op,)? Sc: Scope<'a>>(
            &self,
            scope: Sc,
            $($send: &'a S,)?
            $($receive: &'a mut R,)?
            $($counts: &[$crate::Count],)?
            $($op: O)?
        ) -> Request<'a, either!([$($receive)?] { R } { S }), Sc> {
            let ($this, $label) = (self, $immediate_call);
            let data = either!([$($receive)?] { $(&raw mut *$receive)? } { $(&raw const *$send)? });
            $(let $send = $From::of($send);)?
            // SAFETY: just borrowed; what is derived from it is not used any more when `data` is.
            $(let $receive = $Into::of_mut(unsafe { &mut *data });)?
            $(let $op = &$op.erased();)?
            // SAFETY: all are borrowed for `'a`, and the scope ends the operation before that.
            let running = unsafe { $begin.begin() };
            Request::new(running, data, scope)
        }

        #[doc = concat!(
            "Plans [`", stringify!($name), "`](Self::", stringify!($name), "), to be started again and again (`", $call,
            "_init`)."
        )]
        ///
        /// # Errors
        /// See the trait.
        fn $persistent<'a, $(S: 'a + $Send + ?Sized,)? $(R: 'a + $Receive + ?Sized,)? $(O: 'a + $Op)?>(
            &self,
            $($send: &'a mut S,)?
            $($receive: &'a mut R,)?
            $($counts: &[$crate::Count],)?
            $($op: O)?
        ) -> Result<Persistent<'a, either!([$($send)?] { S } { () }), either!([$($receive)?] { R } { () })>, Error> {
            let ($this, $label) = (self, concat!($call, "_init"));
            let sent: *mut _ = either!([$($send)?] { $($send)? } { std::ptr::dangling_mut::<()>() });
            let received: *mut _ = either!([$($receive)?] { $($receive)? } { std::ptr::dangling_mut::<()>() });
            // SAFETY: just borrowed; what is derived from it is not used any more when `sent` is.
            $(let $send = $From::of(unsafe { &*sent });)?
            // SAFETY: the same for `received`.
            $(let $receive = $Into::of_mut(unsafe { &mut *received });)?
            $(let $op = &$op.erased();)?
            // SAFETY: it is started by `Persistent` only, which borrows the buffers for `'a`.
            let running = unsafe { $begin.begin() };
            let find = move |sent: *mut either!([$($send)?] { S } { () }), received: *mut either!([$($receive)?] { R } { () })| {
                let _ = (sent, received);
                let input = either!([$($send)?] {{
                    $(
                        // SAFETY: borrowed by the caller.
                        let now = $From::of(unsafe { &*sent });
                        if !now.is_like(&$send) {
                            return None;
                        }
                        now.found().0
                    )?
                }} { std::ptr::dangling_mut() });
                let (output, validators) = either!([$($receive)?] {{
                    $(
                        // SAFETY: borrowed mutably by the caller.
                        let now = $Into::of_mut(unsafe { &mut *received });
                        if !now.is_like(&$receive) {
                            return None;
                        }
                        now.found()
                    )?
                }} { (std::ptr::dangling_mut(), Vec::new()) });
                Some(Found { input, output, validators })
            };
            Persistent::new(running, (sent, received), Box::new(find))
        }
    )*};
}
pub(super) use methods;
