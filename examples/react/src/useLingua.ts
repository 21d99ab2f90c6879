// A React hook for a session of the Lingua Scheduler: it connects, hears the microphone, and plays translations.
import { type ConnectOptions, type Result, type Session, type SessionState, connect } from "@lingua-scheduler/client";
import { type Microphone, openMicrophone } from "@lingua-scheduler/client/microphone";
import { playResults } from "@lingua-scheduler/client/playback";
// A bundler gives the worklet an address of its own.
import worklet from "@lingua-scheduler/client/sound.worklet.js?url";
import { useCallback, useEffect, useRef, useState } from "react";

const MAX_RESULTS = 100;

export type LinguaOptions = Pick<ConnectOptions, "url" | "source" | "target" | "token">;

export interface Lingua {
  state: SessionState;
  /** What does not work, as a sentence; empty if all does. */
  problem: string;
  /** The last 100 outcomes, oldest first. */
  results: (Result & { key: string })[];
  /** What is being said now, as far as it is understood. */
  partial: string;
  isTalking: boolean;
  /** To be called from a click: browsers give the microphone and sound only then. */
  talk(): Promise<void>;
  stop(): void;
  /** After `ended`. A lost connection is restored without it. */
  reconnect(): void;
}

/** Another session begins when an option changes; the last one ends with the component. `token` may be a function. */
export function useLingua({ url, source, target, token }: LinguaOptions): Lingua {
  const [state, setState] = useState<SessionState>("connecting");
  const [problem, setProblem] = useState("");
  const [results, setResults] = useState<Lingua["results"]>([]);
  const [partial, setPartial] = useState("");
  const [isTalking, setIsTalking] = useState(false);
  const [attempt, setAttempt] = useState(0);
  const live = useRef<{ session: Session; context: AudioContext; microphone?: Promise<Microphone> }>(undefined);
  // A function that is made anew for each rendering is no reason for another session.
  const latestToken = useRef(token);
  useEffect(() => void (latestToken.current = token));

  useEffect(() => {
    const context = new AudioContext();
    let session: Session | undefined;
    let isOver = false;

    function use(opened: Session) {
      session = opened;
      live.current = { session, context };
      playResults(session, { context });
      session.on("state", setState);
      session.on("partial", ({ text }) => setPartial(text));
      session.on("result", (result) => {
        const key = `${opened.sessionId} ${result.index}`;
        setPartial("");
        setResults((before) => [...before, { ...result, key }].slice(-MAX_RESULTS));
      });
      session.on("ended", (error) => end(error?.message ?? ""));
      setState(session.state);
      setProblem(session.unserved);
    }

    function end(why: string) {
      if (isOver) return;
      setState("ended");
      setProblem(why);
      setIsTalking(false);
      setPartial("");
      void live.current?.microphone?.then((microphone) => microphone.stop());
    }

    setState("connecting");
    setProblem("");
    const fetched = latestToken.current;
    const fresh = typeof fetched === "function" ? () => (latestToken.current as typeof fetched)() : fetched;
    connect({ url, source, target, token: fresh, partials: true }).then(
      // It may have been closed while it was opened; React's strict mode does so each time.
      (opened) => (isOver ? opened.close() : use(opened)),
      (error: Error) => end(error.message),
    );
    return () => {
      isOver = true;
      session?.close();
      void live.current?.microphone?.then((microphone) => microphone.close());
      live.current = undefined;
      setIsTalking(false);
      void context.close();
    };
  }, [url, source, target, attempt]);

  const talk = useCallback(async () => {
    const now = live.current;
    if (!now) return;
    try {
      await now.context.resume();
      const microphone = await (now.microphone ??= openMicrophone({ context: now.context, worklet }));
      if (live.current !== now) return;
      microphone.talk(now.session, { onError: (error) => setProblem(String(error)) });
      setIsTalking(true);
      setProblem(now.session.unserved);
    } catch (error) {
      now.microphone = undefined;
      setProblem((error as Error).message);
    }
  }, []);

  const stop = useCallback(() => {
    setIsTalking(false);
    void live.current?.microphone?.then((microphone) => microphone.stop());
  }, []);

  const reconnect = useCallback(() => setAttempt((count) => count + 1), []);
  return { state, problem, results, partial, isTalking, talk, stop, reconnect };
}
