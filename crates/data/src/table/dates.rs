//! Dates and times of ISO 8601, as days since 1970-01-01.

/// Seconds of a day; leap seconds have no number.
const DAY: f64 = 86_400.0;

/// The days since 1970-01-01 of `2024-02-29`, `2024/02/29`, or a date with a time, as in `2024-02-29T12:30:05.25+01:00`. A time without a
/// zone is one of UTC. None for any other text.
pub(crate) fn days(text: &str) -> Option<f64> {
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time.trim_start())),
        None => (text, None),
    };
    let by = if date.contains('/') { '/' } else { '-' };
    let mut parts = date.split(by);
    let (year, month, day) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=length(year, month)).contains(&day) {
        return None;
    }
    Some(civil(year, month, day) as f64 + time.map_or(Some(0.0), seconds)? / DAY)
}

/// The number of a text of exactly so many digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// The days of a month.
fn length(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March, so that a leap day is the last of its year; 400 years
/// have 146,097 days, and 719,468 days lie between 0000-03-01 and 1970-01-01.
fn civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The seconds of `12:30`, `12:30:05` or `12:30:05.25`, less the offset of a zone behind it.
fn seconds(text: &str) -> Option<f64> {
    let at = text.find(['Z', 'z', '+', '-']).unwrap_or(text.len());
    let (clock, zone) = text.split_at(at);
    let mut parts = clock.trim_end().split(':');
    let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let second = match parts.next() {
        None => 0.0,
        Some(text) => {
            let whole = digits(text.get(..2)?, 2)?;
            let fraction = match text[2..].strip_prefix(['.', ',']) {
                None if text.len() == 2 => 0.0,
                Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                    format!("0.{digits}").parse().ok()?
                }
                _ => return None,
            };
            whole as f64 + fraction
        }
    };
    if parts.next().is_some() || hour > 23 || minute > 59 || second >= 61.0 {
        return None;
    }
    Some((hour * 3600 + minute * 60) as f64 + second - offset(zone)?)
}

/// The seconds of `Z`, `+01`, `+0100` or `-01:00`; 0 of no zone.
fn offset(zone: &str) -> Option<f64> {
    if zone.is_empty() || zone.eq_ignore_ascii_case("z") {
        return Some(0.0);
    }
    let (sign, rest) = (if zone.starts_with('-') { -1 } else { 1 }, &zone[1..]);
    let (hours, minutes) = match (rest.split_once(':'), rest.len()) {
        (Some((hours, minutes)), _) => (digits(hours, 2)?, digits(minutes, 2)?),
        (None, 2) => (digits(rest, 2)?, 0),
        (None, 4) if rest.is_ascii() => (digits(&rest[..2], 2)?, digits(&rest[2..], 2)?),
        _ => return None,
    };
    (hours <= 23 && minutes <= 59).then_some((sign * (hours * 3600 + minutes * 60)) as f64)
}

#[cfg(test)]
mod tests {
    use super::days;

    #[test]
    fn dates_are_days_since_1970_and_leap_years_count() {
        for (text, expected) in [
            ("1970-01-01", 0.0),
            ("1969-12-31", -1.0),
            ("2000-02-29", 11_016.0),
            ("2024/03/01", 19_783.0),
            ("1600-01-01", -135_140.0),
            ("2024-02-29T12:00:00Z", 19_782.5),
            ("2024-02-29 12:00", 19_782.5),
            ("2024-02-29T13:00:00+01:00", 19_782.5),
            ("2024-02-29T06:30:00.000-0530", 19_782.5),
            ("1970-01-01T00:00:00.25", 0.25 / 86_400.0),
        ] {
            assert_eq!(days(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_dates_are_none() {
        for text in [
            "",
            "2024",
            "2024-13-01",
            "2023-02-29",
            "1900-02-29",
            "24-02-29",
            "2024-2-9",
            "29.02.2024",
            "02/29/2024",
            "2024-02-29T",
            "2024-02-29T25:00",
            "2024-02-29 noon",
            "2024-02-29T12:00+25:00",
            "2024-02-29T12:00:00+é1",
            "２０２４-01-01",
            "2024-02-29-1",
            "2024-02-29T12:00:00.",
            "2024-02-29T12:0é:00",
        ] {
            assert_eq!(days(text), None, "{text}");
        }
    }
}
