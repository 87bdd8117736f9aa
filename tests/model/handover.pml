/* SPDX-License-Identifier: MIT
 *
 * The handover (docs/handover.md) for Spin: both ends by the very table that the code is tested
 * against, over a link that delays, loses and breaks, with crashes, questions and a user who settles
 * what is in doubt.
 *
 * Checked: never two runners; and in the end exactly one, unless the process that owned the guest
 * crashed. (So there is always one where nothing fails after COMMIT.) Each BROKEN_… variant leaves
 * out one rule and must be found wrong. */
mtype = { S_HERE, S_OFFERED, S_COMMITTED, S_MOVED, S_KEPT };
mtype = { S_EMPTY, S_READY, S_OWNER, S_DISCARDED };
mtype = { E_SENT, E_READY, E_RUNNING, E_LOADED, E_COMMIT, E_LOST, E_ASKED, E_ANSWER_RUNNING,
          E_ANSWER_DISCARDED, E_FORCE_SOURCE, E_FORCE_DESTINATION };
mtype = { DO_NOTHING, DO_SEND_COMMIT, DO_RELEASE, DO_KEEP, DO_HOLD, DO_SEND_READY, DO_RUN, DO_DISCARD,
          DO_WAIT, DO_ANSWER_RUNNING, DO_ANSWER_DISCARDED, DO_REFUSE };

/* The connection of the migration, and those of the questions. Messages are the other end's events. */
chan to_destination = [2] of { mtype };
chan to_source = [2] of { mtype };
chan question = [1] of { mtype };
chan answer = [2] of { mtype };

mtype source = S_HERE;
mtype destination = S_EMPTY;
bool source_runs, destination_runs;          /* the guest is paused for the handover */
bool source_lost, destination_lost;          /* this end has given the connection up */
bool source_crashed, destination_crashed;
bool owner_crashed;                          /* the guest went down with its owner */
bool spared;                                 /* the destination will not crash any more */
byte questions, questions_lost;

/* A first question may be lost, a second one is not: the user asks again. */
#define MAX_QUESTIONS 2

inline source_step(event, action)
{
    if
#ifdef BROKEN_RESUME_IN_DOUBT
    :: source == S_COMMITTED && event == E_LOST -> source = S_KEPT; action = DO_KEEP
#endif
#define SOURCE(state, event_, next, action_) \
    :: source == S_##state && event == E_##event_ -> source = S_##next; action = DO_##action_
#define DESTINATION(state, event_, next, action_)
#include "handover.def"
#undef SOURCE
#undef DESTINATION
    :: else -> action = DO_REFUSE
    fi
}

inline destination_step(event, action)
{
    if
#ifdef BROKEN_REVOCABLE_DISCARD
    :: destination == S_DISCARDED && event == E_COMMIT -> destination = S_OWNER; action = DO_RUN
#endif
#ifdef BROKEN_ANSWER_IN_READY
    :: destination == S_READY && event == E_ASKED -> action = DO_ANSWER_DISCARDED
#endif
#define SOURCE(state, event_, next, action_)
#define DESTINATION(state, event_, next, action_) \
    :: destination == S_##state && event == E_##event_ -> destination = S_##next; action = DO_##action_
#include "handover.def"
#undef SOURCE
#undef DESTINATION
    :: else -> action = DO_REFUSE
    fi
}

/* A broken connection takes what is sent into it without a word. */
inline send(link, message)
{
    if
    :: nfull(link) -> link!message
    :: full(link) -> skip
    fi
}

inline source_obey(action)
{
    if
    :: action == DO_SEND_COMMIT -> send(to_destination, E_COMMIT)
    :: action == DO_KEEP -> source_runs = true
    :: else -> skip
    fi
}

inline destination_obey(action)
{
    if
    :: action == DO_SEND_READY ->
#ifdef BROKEN_RUN_BEFORE_COMMIT
        destination_runs = true;
#endif
        send(to_source, E_READY)
    :: action == DO_RUN -> destination_runs = true; send(to_source, E_RUNNING)
    :: action == DO_ANSWER_RUNNING -> send(answer, E_ANSWER_RUNNING)
    :: action == DO_ANSWER_DISCARDED -> send(answer, E_ANSWER_DISCARDED)
    :: else -> skip
    fi;
    assert(!(source_runs && destination_runs))
}

#define IN_DOUBT (source == S_COMMITTED && source_lost)
#ifdef BROKEN_BLIND_FORCE
#define USER_SAW_IT_GONE true
#else
#define USER_SAW_IT_GONE destination_crashed
#endif
/* Only what can no longer change is told. */
#ifdef BROKEN_ANSWER_IN_READY
#define MAY_ANSWER (destination != S_EMPTY)
#else
#define MAY_ANSWER (destination == S_OWNER || destination == S_DISCARDED)
#endif

active proctype Source()
{
    mtype message, action;

end:
    do
    :: atomic { !source_crashed && source == S_HERE ->
           source_step(E_SENT, action); send(to_destination, E_LOADED) }
    /* READY is of no use to an end that gave up; RUNNING is, however late. */
    :: atomic { !source_crashed && nempty(to_source) ->
           to_source?message;
           source_step(message, action);
           if
           :: action == DO_REFUSE && !source_lost -> source_lost = true; source_step(E_LOST, action)
           :: else -> skip
           fi;
           source_obey(action); assert(!(source_runs && destination_runs)) }
    /* The deadline, a cancellation, an error: at any moment until the end is known. */
    :: atomic { !source_crashed && !source_lost && source != S_MOVED && source != S_KEPT ->
           source_lost = true; source_step(E_LOST, action); source_obey(action);
           assert(!(source_runs && destination_runs)) }
    :: atomic { !source_crashed && !source_lost && source != S_MOVED && source != S_KEPT ->
           source_crashed = true }
    /* The user settles it: asks, and forces only what he saw. */
    :: atomic { !source_crashed && IN_DOUBT && questions < MAX_QUESTIONS && nfull(question) ->
           questions++; question!E_ASKED }
    :: atomic { !source_crashed && nempty(answer) ->
           answer?message;
           source_step(message, action); source_obey(action);
           assert(!(source_runs && destination_runs)) }
    :: atomic { !source_crashed && IN_DOUBT && USER_SAW_IT_GONE ->
           source_step(E_FORCE_SOURCE, action); source_obey(action);
           assert(!(source_runs && destination_runs)) }
    :: atomic { !source_crashed && IN_DOUBT && destination_runs ->
           source_step(E_FORCE_DESTINATION, action); source_obey(action) }
    od
}

active proctype Destination()
{
    mtype message, action;

end:
    do
    :: atomic { !destination_crashed && nempty(to_destination) ->
           to_destination?message;
           destination_step(message, action);
           if
           :: action == DO_REFUSE && !destination_lost ->
               destination_lost = true; destination_step(E_LOST, action)
           :: else -> skip
           fi;
           destination_obey(action) }
    :: atomic { !destination_crashed && !destination_lost && destination != S_OWNER &&
                destination != S_DISCARDED ->
           destination_lost = true; destination_step(E_LOST, action); destination_obey(action) }
    :: atomic { !destination_crashed && !spared -> spared = true }
    :: atomic { !destination_crashed && !spared ->
           owner_crashed = owner_crashed || destination_runs;
           destination_crashed = true; destination_runs = false }
    /* A question waits in the listening socket until there is an answer. */
    :: atomic { !destination_crashed && nempty(question) && MAY_ANSWER ->
           question?message; destination_step(message, action);
           assert(action != DO_WAIT); destination_obey(action) }
    od
}

/* Loses any message at any moment. */
active proctype Link()
{
end:
    do
    :: atomic { to_destination?_ }
    :: atomic { to_source?_ }
    :: atomic { questions_lost == 0 && nempty(question) -> questions_lost++; question?_ }
    :: atomic { questions_lost == 0 && nempty(answer) -> questions_lost++; answer?_ }
    od
}

#if defined(REACHED_MOVED)
#define CLAIMED_NEVER (source == S_MOVED && !source_lost)
#elif defined(REACHED_KEPT_AFTER_QUESTION)
#define CLAIMED_NEVER (source_runs && questions && !destination_crashed)
#elif defined(REACHED_MOVED_AFTER_QUESTION)
#define CLAIMED_NEVER (destination_runs && source == S_MOVED && questions)
#else
#define CLAIMED_NEVER false
#endif

/* Once nothing more can happen. */
active proctype Judge()
{
end:
    timeout ->
        assert(!CLAIMED_NEVER);
        assert(source_crashed || owner_crashed || (source_runs != destination_runs))
}
