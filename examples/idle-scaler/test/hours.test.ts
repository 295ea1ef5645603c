import assert from "node:assert/strict";
import { test } from "node:test";

import { Hours, HoursError } from "../src/hours.ts";

/** Returns `open` or `closed`, and until when. */
function at(hours: string, zone: string, now: string): string {
  const { isOpen, until } = new Hours(hours, zone).at(new Date(now));
  return `${isOpen ? "open" : "closed"} until ${until.toISOString().replace(":00.000Z", "Z")}`;
}

test("hours of working days", () => {
  const hours = "Mon-Fri 08:00-18:00";
  for (const [now, expected] of [
    ["2026-01-05T07:59:59.999Z", "closed until 2026-01-05T08:00Z"], // a Monday
    ["2026-01-05T08:00:00Z", "open until 2026-01-05T18:00Z"],
    ["2026-01-05T17:59:59.999Z", "open until 2026-01-05T18:00Z"],
    ["2026-01-05T18:00:00Z", "closed until 2026-01-06T08:00Z"],
    ["2026-01-09T18:00:00Z", "closed until 2026-01-12T08:00Z"],
    ["2026-01-11T12:00:00Z", "closed until 2026-01-12T08:00Z"],
  ] as const) {
    assert.equal(at(hours, "UTC", now), expected);
  }
});

test("spans may cross midnight, overlap, touch, and be of any days", () => {
  for (const [hours, now, expected] of [
    ["Fri 22:00-02:00", "2026-01-10T01:00:00Z", "open until 2026-01-10T02:00Z"],
    ["Fri 22:00-02:00", "2026-01-10T02:00:00Z", "closed until 2026-01-16T22:00Z"],
    ["sat-MON 09:00-10:00", "2026-01-11T09:30:00Z", "open until 2026-01-11T10:00Z"],
    ["sat-MON 09:00-10:00", "2026-01-12T10:00:00Z", "closed until 2026-01-17T09:00Z"],
    ["09:00-10:00", "2026-01-11T10:00:00Z", "closed until 2026-01-12T09:00Z"],
    ["Mon 08:00-12:00, Mon 11:00-14:00,Mon 14:00-15:00", "2026-01-05T08:00:00Z", "open until 2026-01-05T15:00Z"],
    ["Mon 20:00-24:00, Tue 00:00-04:00", "2026-01-05T20:00:00Z", "open until 2026-01-06T04:00Z"],
    ["Wed 00:00-24:00", "2026-01-07T00:00:00Z", "open until 2026-01-08T00:00Z"],
    ["Wed 09:00-10:00", "2026-01-07T10:00:00Z", "closed until 2026-01-14T09:00Z"],
  ] as const) {
    assert.equal(at(hours, "UTC", now), expected, hours);
  }
});

test("hours without an end stay open", () => {
  assert.match(at("00:00-24:00", "UTC", "2026-01-05T12:00:00Z"), /^open until 2026-01-1/);
});

test("hours are those of the zone's clocks, in summer and in winter", () => {
  for (const [zone, now, expected] of [
    ["Europe/Zurich", "2026-01-05T07:00:00Z", "open until 2026-01-05T17:00Z"],
    ["Europe/Zurich", "2026-07-06T06:00:00Z", "open until 2026-07-06T16:00Z"],
    ["America/New_York", "2026-01-05T12:59:00Z", "closed until 2026-01-05T13:00Z"],
    ["Asia/Kolkata", "2026-01-05T02:30:00Z", "open until 2026-01-05T12:30Z"],
    // It is Tuesday there.
    ["Pacific/Kiritimati", "2026-01-05T18:00:00Z", "open until 2026-01-06T04:00Z"],
  ] as const) {
    assert.equal(at("Mon-Fri 08:00-18:00", zone, now), expected, zone);
  }
});

test("a day on which clocks are set is an hour shorter or longer", () => {
  assert.equal(at("Sun 00:00-24:00", "Europe/Zurich", "2026-03-28T23:00:00Z"), "open until 2026-03-29T22:00Z");
  assert.equal(at("Sun 00:00-24:00", "Europe/Zurich", "2026-10-24T22:00:00Z"), "open until 2026-10-25T23:00Z");
  // 02:30 does not exist on this day.
  assert.equal(at("Sun 02:30-04:00", "Europe/Zurich", "2026-03-29T00:00:00Z"), "closed until 2026-03-29T01:30Z");
  // 02:30 comes twice on this one.
  assert.equal(at("Sun 02:30-04:00", "Europe/Zurich", "2026-10-25T00:00:00Z"), "closed until 2026-10-25T00:30Z");
});

test("the rules of later years are known", () => {
  assert.equal(at("Mon 08:00-18:00", "Europe/Zurich", "2036-07-07T06:00:00Z"), "open until 2036-07-07T16:00Z");
});

test("what is no time is refused, with the reason", () => {
  for (const [hours, zone, message] of [
    ["", "UTC", "`` is not like `Mon-Fri 08:00-18:00`"],
    ["always", "UTC", "`always` is not like `Mon-Fri 08:00-18:00`"],
    ["Mon-Fri 08:00-18:00,", "UTC", "`` is not like `Mon-Fri 08:00-18:00`"],
    ["Mon-Fri 8-18", "UTC", "`Mon-Fri 8-18` is not like `Mon-Fri 08:00-18:00`"],
    ["Mon-Fry 08:00-18:00", "UTC", "`Mon-Fry` is not of the days Mon, Tue, Wed, Thu, Fri, Sat and Sun"],
    ["Montag 08:00-18:00", "UTC", "`Montag 08:00-18:00` is not like `Mon-Fri 08:00-18:00`"],
    ["08:00-25:00", "UTC", "`25:00` is not a time from 00:00 to 24:00"],
    ["24:00-08:00", "UTC", "`24:00-08:00` begins at the end of a day"],
    ["08:60-18:00", "UTC", "`08:60` is not a time from 00:00 to 24:00"],
    ["08:00-08:00", "UTC", "`08:00-08:00` is empty: for a whole day, write 00:00-24:00"],
    ["08:00-18:00", "Mars/Olympus", "`Mars/Olympus` is not a time zone, such as Europe/Zurich"],
    ["08:00-18:00", "", "`` is not a time zone, such as Europe/Zurich"],
    ["08:00-18:00", "Zürich", "`Zürich` is not a time zone, such as Europe/Zurich"],
  ] as const) {
    assert.throws(() => new Hours(hours, zone), (error) => error instanceof HoursError && error.message === message, `${hours} ${zone}`);
  }
});
