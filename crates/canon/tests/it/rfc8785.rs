//! The examples of RFC 8785.

use canon::{
    canonical::{self, CanonicalError},
    json::{self, Limits},
};
use serde_json::Value;

fn canonical_of(text: &str) -> String {
    let value = json::read(text.as_bytes(), &Limits::default()).unwrap();
    canonical::to_string(&value).unwrap()
}

/// Sections 3.2.2 to 3.2.4: the sample and its exact bytes.
#[test]
fn sample_matches_the_published_bytes() {
    let sample = r#"{
       "numbers": [333333333.33333329, 1E30, 4.50,
                   2e-3, 0.000000000000000000000000001],
       "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
       "literals": [null, true, false]
     }"#;
    let expected = "\
        7b 22 6c 69 74 65 72 61 6c 73 22 3a 5b 6e 75 6c 6c 2c 74 72 \
        75 65 2c 66 61 6c 73 65 5d 2c 22 6e 75 6d 62 65 72 73 22 3a \
        5b 33 33 33 33 33 33 33 33 33 2e 33 33 33 33 33 33 33 2c 31 \
        65 2b 33 30 2c 34 2e 35 2c 30 2e 30 30 32 2c 31 65 2d 32 37 \
        5d 2c 22 73 74 72 69 6e 67 22 3a 22 e2 82 ac 24 5c 75 30 30 \
        30 66 5c 6e 41 27 42 5c 22 5c 5c 5c 5c 5c 22 2f 22 7d";
    let expected: Vec<u8> =
        expected.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let value = json::read(sample.as_bytes(), &Limits::default()).unwrap();
    assert_eq!(canonical::to_vec(&value).unwrap(), expected);
    assert_eq!(canonical::to_string(&value).unwrap().into_bytes(), expected);
    assert_eq!(canonical::string_of(&value).into_bytes(), expected);
}

/// Section 3.2.3.
#[test]
fn members_are_sorted_by_utf16_code_units() {
    let sample = r#"{
       "\u20ac": "Euro Sign",
       "\r": "Carriage Return",
       "\ufb33": "Hebrew Letter Dalet With Dagesh",
       "1": "One",
       "\ud83d\ude00": "Emoji: Grinning Face",
       "\u0080": "Control",
       "\u00f6": "Latin Small Letter O With Diaeresis"
     }"#;
    let text = canonical_of(sample);
    let expected = [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ];
    let places: Vec<usize> = expected.iter().map(|name| text.find(name).unwrap()).collect();
    assert!(places.is_sorted(), "{text}");
    assert!(text.starts_with(r#"{"\r":"Carriage Return","1":"One","#), "{text}");
}

/// Section 3.2.2.2: what is escaped, and that nothing else is.
#[test]
fn strings_escape_only_what_is_required() {
    let cases = [
        (r#""\u0008\u0009\u000a\u000c\u000d""#, r#""\b\t\n\f\r""#),
        (r#""\u0000\u000b\u001F""#, r#""\u0000\u000b\u001f""#),
        (r#""\u0022\u005C\/""#, r#""\"\\/""#),
        (r#""\u007f\u0080\u2028\u2029\uFFFF""#, "\"\u{7f}\u{80}\u{2028}\u{2029}\u{ffff}\""),
        (r#""\ud83D\uDe00é""#, "\"😀é\""),
    ];
    for (text, expected) in cases {
        assert_eq!(canonical_of(text), expected, "{text}");
    }
}

/// Appendix B: the bits of a double, and its text.
const NUMBERS: [(u64, &str); 24] = [
    (0x0000_0000_0000_0000, "0"),
    (0x8000_0000_0000_0000, "0"),
    (0x0000_0000_0000_0001, "5e-324"),
    (0x8000_0000_0000_0001, "-5e-324"),
    (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
    (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
    (0x4340_0000_0000_0000, "9007199254740992"),
    (0xc340_0000_0000_0000, "-9007199254740992"),
    (0x4430_0000_0000_0000, "295147905179352830000"),
    (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
    (0x44b5_2d02_c7e1_4af6, "1e+23"),
    (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
    (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
    (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
    (0x444b_1ae4_d6e2_ef50, "1e+21"),
    (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
    (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
    (0x41b3_de43_5555_5553, "333333333.3333332"),
    (0x41b3_de43_5555_5554, "333333333.33333325"),
    (0x41b3_de43_5555_5555, "333333333.3333333"),
    (0x41b3_de43_5555_5556, "333333333.3333334"),
    (0x41b3_de43_5555_5557, "333333333.33333343"),
    (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
    (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
];

#[test]
fn numbers_match_appendix_b() {
    for (bits, expected) in NUMBERS {
        let double = f64::from_bits(bits);
        assert_eq!(canonical::to_string(&double).unwrap(), expected, "{bits:016x}");
        assert_eq!(canonical::string_of(&Value::from(double)), expected, "{bits:016x} in a value");
        let reread = json::read(expected.as_bytes(), &Limits::default()).unwrap().as_f64().unwrap();
        assert_eq!(reread, double, "{bits:016x} read back");
    }
}

#[test]
fn non_finite_numbers_are_rejected_at_any_depth() {
    for bits in [0x7fff_ffff_ffff_ffff, 0x7ff0_0000_0000_0000, 0xfff0_0000_0000_0000] {
        let double = f64::from_bits(bits);
        assert!(matches!(canonical::to_string(&double), Err(CanonicalError::NotFinite)), "{double}");
        assert!(matches!(canonical::to_vec(&[double]), Err(CanonicalError::NotFinite)), "[{double}]");
        assert!(matches!(canonical::to_string(&Some([f32::NAN])), Err(CanonicalError::NotFinite)));
    }
}
