// Opening hours such as `Mon-Fri 08:00-18:00, Sat 22:00-02:00`, in a time zone.

// The engine of the sandbox has no `Intl`, so it lacks the rules of time zones.
import { TZ } from "@phensley/timezone";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
/** The day of the week of 1970-01-01, a Thursday. */
const EPOCH = 3;
const SPAN = /^(?:(?<days>[a-z]{3}(?:-[a-z]{3})?)\s+)?(?<from>\d\d:\d\d)-(?<to>\d\d:\d\d)$/i;

/** The hours or the time zone are malformed. */
export class HoursError extends Error {}

/** The state at some time, and how long it lasts at least. */
export interface State {
  isOpen: boolean;
  until: Date;
}

/** A span of each of these days, in milliseconds from the day's beginning. It may end on the next day. */
interface Span {
  /** 0 is Monday. */
  days: Set<number>;
  from: number;
  to: number;
}

/** The hours in which something is open. */
export class Hours {
  private readonly spans: Span[];
  private readonly zone: string;

  /** Throws an HoursError. */
  constructor(text: string, zone: string) {
    this.spans = text.split(",").map((part) => parseSpan(part.trim()));
    if (TZ.resolveId(zone) === undefined) throw new HoursError(`\`${zone}\` is not a time zone, such as Europe/Zurich`);
    this.zone = zone;
  }

  at(now: Date): State {
    const at = now.getTime();
    const open = this.around(at).find(([, to]) => at < to);
    if (open === undefined) throw new Error("a week has no hours");
    const [from, to] = open;
    return at < from ? { isOpen: false, until: new Date(from) } : { isOpen: true, until: new Date(to) };
  }

  /** Returns the open times from one day before to eight days after. Adjacent times are joined. */
  private around(now: number): [from: number, to: number][] {
    const today = Math.floor((now + TZ.fromUTC(this.zone, now)!.offset) / DAY);
    const all: [number, number][] = [];
    for (let day = today - 1; day <= today + 8; day++) {
      for (const { days, from, to } of this.spans) {
        if (days.has((day + EPOCH) % 7)) all.push([this.utc(day * DAY + from), this.utc(day * DAY + to)]);
      }
    }
    all.sort(([one], [other]) => one - other);
    const joined: [number, number][] = [];
    for (const [from, to] of all) {
      const last = joined.at(-1);
      if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], to);
      else joined.push([from, to]);
    }
    return joined;
  }

  /**
   * Returns when the zone's clocks show this time. If they skip it, the result is later by the skipped time. If they
   * show it twice, the first one counts.
   */
  private utc(wall: number): number {
    return TZ.fromWall(this.zone, wall)![0];
  }
}

function parseSpan(text: string): Span {
  const parts = SPAN.exec(text)?.groups;
  if (parts === undefined) throw new HoursError(`\`${text}\` is not like \`Mon-Fri 08:00-18:00\``);
  const [from, to] = [parseTime(parts.from!), parseTime(parts.to!)];
  if (from === DAY) throw new HoursError(`\`${text}\` begins at the end of a day`);
  if (from === to) throw new HoursError(`\`${text}\` is empty: for a whole day, write 00:00-24:00`);
  return { days: parseDays(parts.days ?? "Mon-Sun"), from, to: to < from ? to + DAY : to };
}

function parseTime(text: string): number {
  const [hour, minute] = text.split(":").map(Number) as [number, number];
  const time = (hour * 60 + minute) * MINUTE;
  if (minute > 59 || time > DAY) throw new HoursError(`\`${text}\` is not a time from 00:00 to 24:00`);
  return time;
}

function parseDays(text: string): Set<number> {
  const [first, last = first] = text.split("-").map((name) => DAYS.indexOf(name.toLowerCase())) as [number, number?];
  if (first < 0 || last! < 0) throw new HoursError(`\`${text}\` is not of the days Mon, Tue, Wed, Thu, Fri, Sat and Sun`);
  const days = new Set([last!]);
  for (let day = first; day !== last; day = (day + 1) % 7) days.add(day);
  return days;
}
