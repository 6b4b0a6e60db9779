//! The end of operations that have begun (MPI 3.7.3 to 3.7.6, 3.9).

use std::{
    iter,
    ops::Range,
    sync::{Arc, MutexGuard},
};

use hikyaku::mpi::{
    engine::{AnyRequest, Status},
    error::ErrorClass,
};

use super::{Done, point_to_point::status_of_error};
use crate::{
    abi::Sort,
    border::{Call, Failure, Handles, InOut, Int, Out, OutInts, OutStatus, OutStatuses, Scope, UNDEFINED},
    errors,
    objects::{Buffered, Comm, Ended, Held, Owner, Pending, Request, RequestObject},
    process,
};

#[doc(hidden)]
#[macro_export]
macro_rules! requests {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Wait" => requests::wait(request: InOut<RequestObject>, status: OutStatus);
                "Test" => requests::test(request: InOut<RequestObject>, flag: Out<i32>, status: OutStatus);
                "Waitall" => requests::waitall(count: Int, requests: Handles<RequestObject>, statuses: OutStatuses);
                "Testall" => requests::testall(
                    count: Int, requests: Handles<RequestObject>, flag: Out<i32>, statuses: OutStatuses);
                "Waitany" => requests::waitany(
                    count: Int, requests: Handles<RequestObject>, indx: Out<i32>, status: OutStatus);
                "Testany" => requests::testany(
                    count: Int, requests: Handles<RequestObject>, indx: Out<i32>, flag: Out<i32>, status: OutStatus);
                "Waitsome" => requests::waitsome(
                    incount: Int, requests: Handles<RequestObject>, outcount: Out<i32>, indices: OutInts,
                    statuses: OutStatuses);
                "Testsome" => requests::testsome(
                    incount: Int, requests: Handles<RequestObject>, outcount: Out<i32>, indices: OutInts,
                    statuses: OutStatuses);
                "Request_get_status" => requests::get_status(request: Pending, flag: Out<i32>, status: OutStatus);
                "Request_get_status_all" => requests::get_status_all(
                    count: Int, requests: Handles<RequestObject>, flag: Out<i32>, statuses: OutStatuses);
                "Request_get_status_any" => requests::get_status_any(
                    count: Int, requests: Handles<RequestObject>, indx: Out<i32>, flag: Out<i32>, status: OutStatus);
                "Request_get_status_some" => requests::get_status_some(
                    incount: Int, requests: Handles<RequestObject>, outcount: Out<i32>, indices: OutInts,
                    statuses: OutStatuses);
                "Request_free" => requests::request_free(request: InOut<RequestObject>);
                "Cancel" => requests::cancel(request: InOut<RequestObject>);
                "Start" => requests::start(request: InOut<RequestObject>);
                "Startall" => requests::startall(count: Int, requests: Handles<RequestObject>);
            }
        };
    };
}

type Place = InOut<RequestObject>;
type Places = Handles<RequestObject>;

/// A request that may end.
struct Active {
    index: usize,
    named: Pending,
    object: Held<RequestObject>,
}

fn number(count: Int) -> Result<usize, Failure> {
    usize::try_from(count.0).map_err(|_| Failure::value(ErrorClass::Count, "count", count.0.into(), 0, i32::MAX.into()))
}

/// Those of the requests that are active.
fn active(count: Int, requests: Places) -> Result<Vec<Active>, Failure> {
    let mut all = Vec::new();
    for (index, named) in requests.iter(number(count)?)?.enumerate() {
        if named.is_null() {
            continue;
        }
        let object = named.get()?;
        if object.lock().is_active() {
            all.push(Active { index, named, object });
        }
    }
    Ok(all)
}

/// The program's handle after the end of its request: null, unless that is persistent.
fn release(named: Pending, request: MutexGuard<'_, Request>) -> Option<Pending> {
    if request.is_persistent() {
        return None;
    }
    drop(request);
    // It is there: the caller has just used it.
    let _ = named.remove();
    Some(Pending::NULL)
}

/// Tells the error handler of the request's object.
fn raise(call: Call, scope: Option<Scope>, failure: Failure) -> Failure {
    Failure::Told(errors::raise(call, scope, failure))
}

/// Writes the status of a request that has ended alone.
fn report(call: Call, scope: Option<Scope>, ended: Ended, status: OutStatus) -> Done {
    match ended {
        Ok(ended) => {
            status.set(&ended);
            Ok(())
        }
        Err(failure) => {
            status_of_failure(&failure, status);
            Err(raise(call, scope, failure))
        }
    }
}

/// The status of a request that has failed.
fn status_of_failure(failure: &Failure, status: OutStatus) {
    if let Failure::Engine(error) = failure {
        status_of_error(error, status);
    }
}

pub fn wait(call: Call, request: Place, status: OutStatus) -> Done {
    let named = request.get();
    if named.is_null() {
        status.set(&Status::EMPTY);
        return Ok(());
    }
    if named == Pending::SENT {
        request.set(Pending::NULL);
        status.set(&Status::EMPTY);
        return Ok(());
    }
    if let Some(ended) = wait_numbered(named, true) {
        request.set(Pending::NULL);
        status.set(&ended);
        return Ok(());
    }
    let mut taken = Pending::take(iter::once(named), |object| !object.is_plain())?;
    let (object, was_taken) = taken.first_mut().expect("one of one");
    let ((ended, scope, stays), was_taken) = (RequestObject::wait(object), *was_taken);
    Pending::keep(taken);
    end(named, (was_taken, stays), || request.set(Pending::NULL));
    report(call, scope, ended, status)
}

/// The status of a receive that the engine knows by a number, if it ends soon; without `waits`, if it has ended.
fn wait_numbered(named: Pending, waits: bool) -> Option<Status> {
    let (number, joined) = (named.number_of()?, process::joined()?);
    let mut found = None;
    let engine = &joined.engine;
    engine.wait_numbered(iter::once(number), waits, |ended| found = Some(ended));
    found
}

/// A request has ended: unless it stays, its handle is freed, if it was not, and becomes null.
fn end(named: Pending, (was_taken, stays): (bool, bool), set_null: impl FnOnce()) {
    if stays {
        return;
    }
    if !was_taken {
        let _ = named.remove();
    }
    set_null();
}

pub fn test(call: Call, request: Place, flag: Out<i32>, status: OutStatus) -> Done {
    let named = request.get();
    flag.set_flag(true);
    if named.is_null() {
        status.set(&Status::EMPTY);
        return Ok(());
    }
    if named == Pending::SENT {
        request.set(Pending::NULL);
        status.set(&Status::EMPTY);
        return Ok(());
    }
    if let Some(ended) = wait_numbered(named, false) {
        request.set(Pending::NULL);
        status.set(&ended);
        return Ok(());
    }
    let object = named.get()?;
    let mut guard = object.lock();
    let Some(ended) = guard.test() else {
        flag.set_flag(false);
        return Ok(());
    };
    let scope = guard.scope;
    if let Some(null) = release(named, guard) {
        request.set(null);
    }
    report(call, scope, ended, status)
}

/// Ends requests and writes their statuses.
struct Results {
    call: Call,
    failed: Option<Option<Scope>>,
    /// Of those that have failed.
    codes: Vec<(usize, i32)>,
}

impl Results {
    fn new(call: Call) -> Self {
        Self {
            call,
            failed: None,
            codes: Vec::new(),
        }
    }

    /// A request of `scope` has ended so; its status goes to `place` of the array.
    fn add(&mut self, scope: Option<Scope>, ended: Ended, (place, status): (usize, OutStatus)) {
        match ended {
            Ok(ended) => status.set(&ended),
            Err(failure) => {
                status_of_failure(&failure, status);
                self.failed.get_or_insert(scope);
                self.codes.push((place, errors::code(self.call, scope, &failure)));
            }
        }
    }

    /// If one has failed, all statuses say how theirs has ended.
    fn end(self, statuses: OutStatuses, len: usize) -> Done {
        let Some(scope) = self.failed else { return Ok(()) };
        for place in 0..len {
            statuses.at(place).set_error(0);
        }
        for (place, code) in self.codes {
            statuses.at(place).set_error(code);
        }
        Err(raise(self.call, scope, ErrorClass::InStatus.into()))
    }
}

fn clear(statuses: OutStatuses, len: usize) {
    for index in 0..len {
        statuses.at(index).set(&Status::EMPTY);
    }
}

pub fn waitall(call: Call, count: Int, requests: Places, statuses: OutStatuses) -> Done {
    let len = requests.iter(number(count)?)?.len();
    let mut at = end_simple(requests, 0..len, statuses);
    if at == len {
        return Ok(());
    }
    let mut results = Results::new(call);
    while at < len {
        let until = end_further(requests, at..len, statuses, &mut results)?;
        at = end_simple(requests, until..len, statuses);
    }
    results.end(statuses, len)
}

/// Ends requests that are nothing but a number: sends that ended when they began, and receives that the engine knows so.
/// Stops at the first that is none of these, has failed, or does not end soon.
fn end_simple(requests: Places, which: Range<usize>, statuses: OutStatuses) -> usize {
    let (mut at, until) = (which.start, which.end);
    while at < until {
        let named = requests.get(at);
        if named.is_null() || named == Pending::SENT {
            requests.set(at, Pending::NULL);
            statuses.at(at).set(&Status::EMPTY);
            at += 1;
            continue;
        }
        let begin = at;
        if named.number_of().is_some()
            && let Some(joined) = process::joined()
        {
            let numbers = (at..until).map_while(|index| requests.get(index).number_of());
            joined.engine.wait_numbered(numbers, true, |ended| {
                requests.set(at, Pending::NULL);
                statuses.at(at).set(&ended);
                at += 1;
            });
        }
        if at == begin {
            break;
        }
    }
    at
}

/// Ends the first of these requests, and those after it that are objects, too. Gives the first of all others.
fn end_further(
    requests: Places,
    which: Range<usize>,
    statuses: OutStatuses,
    results: &mut Results,
) -> Result<usize, Failure> {
    let is_simple = |named: Pending| named.is_null() || named == Pending::SENT || named.number_of().is_some();
    let others = (which.start + 1..which.end).take_while(|index| !is_simple(requests.get(*index)));
    let named = iter::once(which.start)
        .chain(others)
        .map(|index| (index, requests.get(index)));
    let mut objects = Pending::take(named.clone().map(|(_, named)| named), |object| !object.is_plain())?;
    // (A handle that has ended is null from now on, so they are counted before.)
    let until = which.start + objects.len();
    for (index, (object, was_taken)) in (which.start..until).zip(&mut objects) {
        let (named, status) = (requests.get(index), statuses.at(index));
        status.set(&Status::EMPTY);
        let (ended, scope, stays) = RequestObject::wait(object);
        end(named, (*was_taken, stays), || requests.set(index, Pending::NULL));
        results.add(scope, ended, (index, status));
    }
    Pending::keep(objects);
    Ok(until)
}

pub fn testall(call: Call, count: Int, requests: Places, flag: Out<i32>, statuses: OutStatuses) -> Done {
    let (len, all) = (number(count)?, active(count, requests)?);
    let mut done = true;
    for one in &all {
        done &= !matches!(one.object.lock().peek(), Ok(None));
    }
    flag.set_flag(done);
    if done {
        return waitall(call, count, requests, statuses);
    }
    let _ = len;
    Ok(())
}

/// Waits until one of the requests has ended; its place.
fn wait_for_any(all: &[Active]) -> Result<Option<usize>, Failure> {
    if all.is_empty() {
        return Ok(None);
    }
    loop {
        if let Some(place) = find_ended(all) {
            return Ok(Some(place));
        }
        let guards: Vec<_> = all.iter().map(|one| one.object.lock()).collect();
        let ones: Option<Vec<_>> = guards.iter().map(|guard| guard.engine()).collect();
        match ones {
            Some(ones) => {
                AnyRequest::wait_ready(ones.into_iter());
            }
            None => {
                drop(guards);
                process::pause()?;
            }
        }
    }
}

/// The place of one that has ended.
fn find_ended(all: &[Active]) -> Option<usize> {
    all.iter().position(|one| !matches!(one.object.lock().peek(), Ok(None)))
}

/// Ends the request at this place, or says that there is none.
fn end_one(call: Call, requests: Places, one: Option<&Active>, indx: Out<i32>, status: OutStatus) -> Done {
    let Some(one) = one else {
        indx.set(UNDEFINED);
        status.set(&Status::EMPTY);
        return Ok(());
    };
    indx.set(one.index as i32);
    let mut guard = one.object.lock();
    let (ended, scope) = (guard.wait(), guard.scope);
    if let Some(null) = release(one.named, guard) {
        requests.set(one.index, null);
    }
    report(call, scope, ended, status)
}

pub fn waitany(call: Call, count: Int, requests: Places, indx: Out<i32>, status: OutStatus) -> Done {
    let all = active(count, requests)?;
    let one = wait_for_any(&all)?.map(|place| &all[place]);
    end_one(call, requests, one, indx, status)
}

pub fn testany(call: Call, count: Int, requests: Places, indx: Out<i32>, flag: Out<i32>, status: OutStatus) -> Done {
    let all = active(count, requests)?;
    let one = find_ended(&all).map(|place| &all[place]);
    flag.set_flag(one.is_some() || all.is_empty());
    end_one(
        call,
        requests,
        one,
        indx,
        if one.is_none() && !all.is_empty() {
            status.ignored()
        } else {
            status
        },
    )
}

/// Ends all that have ended.
fn end_some(
    call: Call,
    requests: Places,
    all: &[Active],
    outcount: Out<i32>,
    indices: OutInts,
    statuses: OutStatuses,
) -> Done {
    if all.is_empty() {
        outcount.set(UNDEFINED);
        return Ok(());
    }
    indices.present(all.len())?;
    let (mut results, mut number) = (Results::new(call), 0);
    for one in all {
        let mut guard = one.object.lock();
        if matches!(guard.peek(), Ok(None)) {
            continue;
        }
        let (ended, scope) = (guard.wait(), guard.scope);
        if let Some(null) = release(one.named, guard) {
            requests.set(one.index, null);
        }
        indices.set(number, one.index as i32);
        results.add(scope, ended, (number, statuses.at(number)));
        number += 1;
    }
    outcount.set(number as i32);
    results.end(statuses, number)
}

pub fn waitsome(
    call: Call,
    incount: Int,
    requests: Places,
    outcount: Out<i32>,
    indices: OutInts,
    statuses: OutStatuses,
) -> Done {
    let all = active(incount, requests)?;
    wait_for_any(&all)?;
    end_some(call, requests, &all, outcount, indices, statuses)
}

pub fn testsome(
    call: Call,
    incount: Int,
    requests: Places,
    outcount: Out<i32>,
    indices: OutInts,
    statuses: OutStatuses,
) -> Done {
    let all = active(incount, requests)?;
    end_some(call, requests, &all, outcount, indices, statuses)
}

pub fn get_status(call: Call, request: Pending, flag: Out<i32>, status: OutStatus) -> Done {
    flag.set_flag(true);
    if request.is_null() {
        status.set(&Status::EMPTY);
        return Ok(());
    }
    let object = request.get()?;
    let mut guard = object.lock();
    match guard.peek() {
        Ok(None) => {
            flag.set_flag(false);
            Ok(())
        }
        Ok(Some(ended)) => report(call, guard.scope, Ok(ended), status),
        Err(failure) => report(call, guard.scope, Err(failure), status),
    }
}

pub fn get_status_all(call: Call, count: Int, requests: Places, flag: Out<i32>, statuses: OutStatuses) -> Done {
    let (len, all) = (number(count)?, active(count, requests)?);
    let mut found = Vec::new();
    for one in &all {
        let mut object = one.object.lock();
        match object.peek() {
            Ok(None) => {
                flag.set_flag(false);
                return Ok(());
            }
            Ok(Some(status)) => found.push((one.index, status)),
            Err(failure) => return Err(raise(call, object.scope, failure)),
        }
    }
    flag.set_flag(true);
    clear(statuses, len);
    for (index, status) in found {
        statuses.at(index).set(&status);
    }
    Ok(())
}

pub fn get_status_any(
    call: Call,
    count: Int,
    requests: Places,
    indx: Out<i32>,
    flag: Out<i32>,
    status: OutStatus,
) -> Done {
    let all = active(count, requests)?;
    let one = find_ended(&all).map(|place| &all[place]);
    let Some(one) = one else {
        flag.set_flag(all.is_empty());
        indx.set(UNDEFINED);
        if all.is_empty() {
            status.set(&Status::EMPTY);
        }
        return Ok(());
    };
    indx.set(one.index as i32);
    get_status(call, one.named, flag, status)
}

pub fn get_status_some(
    call: Call,
    incount: Int,
    requests: Places,
    outcount: Out<i32>,
    indices: OutInts,
    statuses: OutStatuses,
) -> Done {
    let all = active(incount, requests)?;
    if all.is_empty() {
        outcount.set(UNDEFINED);
        return Ok(());
    }
    let mut number = 0;
    for one in &all {
        let ended = one.object.lock().peek();
        match ended {
            Ok(None) => continue,
            Ok(Some(status)) => statuses.at(number).set(&status),
            Err(failure) => return Err(raise(call, one.object.lock().scope, failure)),
        }
        indices.set(number, one.index as i32);
        number += 1;
    }
    outcount.set(number as i32);
    Ok(())
}

pub fn request_free(_call: Call, request: Place) -> Done {
    let named = request.get();
    if named == Pending::SENT {
        request.set(Pending::NULL);
        return Ok(());
    }
    let object: Arc<RequestObject> = named.remove()?;
    request.set(Pending::NULL);
    object.lock().free()
}

pub fn cancel(_call: Call, request: Place) -> Done {
    let object = request.get().get()?;
    let mut guard = object.lock();
    guard.cancel()
}

pub fn start(call: Call, request: Place) -> Done {
    begin(call, request.get())
}

fn begin(call: Call, named: Pending) -> Done {
    let object = named.get()?;
    let mut guard = object.lock();
    let scope = guard.scope;
    // A buffered send needs the buffer of its communicator.
    let comm = scope.filter(|scope| scope.sort == Sort::Comm);
    let comm = comm.and_then(|scope| Comm::new(scope.handle).find());
    let started = match comm {
        Some(comm) => Buffered::with_that_of(&comm, |used| guard.start(&used.messages)),
        None => Owner::Process.with(|used| guard.start(&used.messages))?,
    };
    started.map_err(|failure| raise(call, scope, failure))
}

pub fn startall(call: Call, count: Int, requests: Places) -> Done {
    requests.iter(number(count)?)?.try_for_each(|named| begin(call, named))
}
