/* SPDX-License-Identifier: Apache-2.0 */
/* literal.c - texts of a condition as the numbers that a column of dates, times or whole numbers
 * holds: "2024-05-31", "2024-05-31 12:30:00.25+02:00", "12:30:00", "18446744073709551615". */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "parquet/parts.h"

#define SECONDS_A_DAY 86400

/* Exactly n digits. */
static bool take_digits(const char **at, int n, int64_t *out) {
    *out = 0;
    for (int i = 0; i < n; i++, (*at)++) {
        if (**at < '0' || **at > '9') {
            return false;
        }
        *out = *out * 10 + (**at - '0');
    }
    return true;
}

static bool take_char(const char **at, char c) {
    bool there = **at == c;
    *at += there;
    return there;
}

/* Days since 1970 in the calendar that is extended to all times; months count from March, so that
 * the day that some years have more is a year's last. */
static int64_t days_of(int64_t year, int64_t month, int64_t day) {
    year -= month <= 2;
    int64_t era = year / 400, of_era = year % 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static bool is_day(int64_t year, int64_t month, int64_t day) {
    static const int8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return year >= 1 && month >= 1 && month <= 12 && day >= 1 &&
           day <= days[month - 1] + (leap && month == 2);
}

static bool take_date(const char **at, int64_t *days) {
    int64_t year, month, day;
    if (!take_digits(at, 4, &year) || !take_char(at, '-') || !take_digits(at, 2, &month) ||
        !take_char(at, '-') || !take_digits(at, 2, &day) || !is_day(year, month, day)) {
        return false;
    }
    *days = days_of(year, month, day);
    return true;
}

/* A time of day, in seconds and parts of one. */
typedef struct day_time {
    int64_t seconds;
    int64_t nanoseconds;
} day_time;

static bool take_fraction(const char **at, day_time *out) {
    int64_t unit = 100000000;
    if (**at < '0' || **at > '9') {
        return false;
    }
    for (; **at >= '0' && **at <= '9'; (*at)++, unit /= 10) {
        out->nanoseconds += (**at - '0') * unit;
    }
    return true;
}

static bool take_time(const char **at, day_time *out) {
    int64_t hour, minute, second = 0;
    *out = (day_time){0, 0};
    if (!take_digits(at, 2, &hour) || !take_char(at, ':') || !take_digits(at, 2, &minute)) {
        return false;
    }
    if (take_char(at, ':') &&
        (!take_digits(at, 2, &second) || (take_char(at, '.') && !take_fraction(at, out)))) {
        return false;
    }
    out->seconds = (hour * 60 + minute) * 60 + second;
    return hour < 24 && minute < 60 && second < 60;
}

/* Z, or +hh:mm: what is to be taken away for UTC. */
static bool take_zone(const char **at, int64_t *seconds) {
    int64_t hour, minute;
    int64_t sign = **at == '-' ? -1 : 1;
    *seconds = 0;
    if (take_char(at, 'Z')) {
        return true;
    }
    if ((!take_char(at, '+') && !take_char(at, '-')) || !take_digits(at, 2, &hour)) {
        return false;
    }
    take_char(at, ':');
    if (!take_digits(at, 2, &minute)) {
        return false;
    }
    *seconds = sign * (hour * 60 + minute) * 60;
    return true;
}

/* In the column's unit, rounded down. */
static void in_units(const mr_pq_column *column, int64_t seconds, int64_t nanoseconds,
                     mr_pq_whole *out) {
    int64_t per_second = column->per_second ? column->per_second : 1000000000;
    int64_t nanoseconds_each = 1000000000 / per_second, whole;
    if (__builtin_mul_overflow(seconds, per_second, &whole) ||
        __builtin_add_overflow(whole, nanoseconds / nanoseconds_each, &whole)) {
        out->side = seconds < 0 ? -1 : 1;
        return;
    }
    out->value = whole;
    out->beyond = nanoseconds % nanoseconds_each != 0;
}

static bool timestamp_of(const mr_pq_column *column, const char *at, mr_pq_whole *out) {
    day_time time = {0, 0};
    int64_t days, zone = 0;
    bool local = column->physical != MR_PQ_INT96 && !column->utc;
    if (!take_date(&at, &days)) {
        return false;
    }
    if ((take_char(&at, 'T') || take_char(&at, ' ')) && !take_time(&at, &time)) {
        return false;
    }
    if (*at && (local || !take_zone(&at, &zone))) {
        return false;
    }
    in_units(column, days * SECONDS_A_DAY + time.seconds - zone, time.nanoseconds, out);
    return *at == '\0';
}

static bool date_of(const char *at, mr_pq_whole *out) {
    return take_date(&at, &out->value) && *at == '\0';
}

static bool time_of(const mr_pq_column *column, const char *at, mr_pq_whole *out) {
    day_time time;
    if (!take_time(&at, &time)) {
        return false;
    }
    in_units(column, time.seconds, time.nanoseconds, out);
    return *at == '\0';
}

static bool is_whole_number(const char *text) {
    text += *text == '-';
    return *text && strspn(text, "0123456789") == strlen(text);
}

/* JSON's numbers end at 2^63 - 1, a column's at 2^64 - 1. */
static bool whole_of(const mr_pq_column *column, const char *text, mr_pq_whole *out) {
    if (!is_whole_number(text)) {
        return false;
    }
    errno = 0;
    if (column->dtype == MR_U64 && text[0] != '-') {
        out->value = (int64_t)strtoull(text, NULL, 10);
    } else {
        out->value = strtoll(text, NULL, 10);
    }
    if (errno) {
        out->side = text[0] == '-' ? -1 : 1;
    }
    return true;
}

bool mr_pq_whole_of_text(const mr_pq_column *column, const char *text, mr_pq_whole *out) {
    *out = (mr_pq_whole){0, 0, false};
    switch (column->logical) {
    case MR_PQ_DATE:
        return date_of(text, out);
    case MR_PQ_TIME:
        return time_of(column, text, out);
    case MR_PQ_TIMESTAMP:
        return timestamp_of(column, text, out);
    default:
        return column->physical == MR_PQ_INT96 ? timestamp_of(column, text, out)
                                               : whole_of(column, text, out);
    }
}
