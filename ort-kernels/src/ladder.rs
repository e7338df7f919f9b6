//! `ladder!`: one line declares the variants of a kernel, dispatches to them and tests each.

/// Declares the variants of one kernel, best first, and generates the items below.
///
/// ```text
/// ladder! {
///     fn tile(a: &[f32], …);
///     Avx512 => avx512_14x32, Avx2 => avx2_6x16; generic
/// }
/// ```
/// Every name is a submodule with a `const VARIANT: Variant` (a type of the folder)
/// and `fn tile(token: <Isa>, a: &[f32], …)`; `generic` takes no token. Generates
/// - `fn tile(isa: Isa, a: &[f32], …)`, which runs the best variant that `isa` allows;
/// - `fn best(isa: Isa) -> Variant`, which describes it;
/// - `fn all() -> impl Iterator<Item = (Variant, Option<Isa>)>`: every variant, with the instruction
///   set that selects it, if this machine supports it;
/// - one test per variant, which calls `tests::agrees_with_generic(isa)`, or prints that it is skipped.
macro_rules! ladder {
    (fn $name:ident($($arg:ident : $ty:ty),* $(,)?); $($rungs:tt)+) => {
        ladder! { @rungs $name ($($arg: $ty),*) ($($arg),*) $($rungs)+ }
    };
    (@rungs $name:ident $params:tt $args:tt
     $($isa:ident => $variant:ident),+ ; $generic:ident) => {
        $(cfg_isa! { $isa mod $variant; })+
        mod $generic;

        ladder! { @run $name $params $args $($isa => $variant),+ ; $generic }

        /// Describes the best variant `isa` allows.
        fn best(isa: $crate::Isa) -> Variant {
            let _ = isa;
            $(cfg_isa! { $isa
                if ladder!(@token $isa isa).is_some() {
                    return $variant::VARIANT;
                }
            })+
            $generic::VARIANT
        }

        /// Every variant with the instruction set it needs, `None` if this machine does not support it.
        pub fn all() -> impl Iterator<Item = (Variant, Option<$crate::Isa>)> {
            let all = std::iter::empty();
            $(cfg_isa! { $isa
                let all = all.chain([($variant::VARIANT, $crate::$isa::detect().map($crate::Isa::from))]);
            })+
            all.chain([($generic::VARIANT, Some($crate::Isa::Generic))])
        }

        #[cfg(test)]
        mod ladder {
            $(cfg_isa! { $isa
                #[test]
                fn $variant() {
                    match $crate::$isa::detect() {
                        Some(token) => super::tests::agrees_with_generic($crate::Isa::from(token)),
                        None => println!("skipped: this machine lacks {}", stringify!($isa)),
                    }
                }
            })+
        }
    };
    (@run $name:ident ($($params:tt)*) $args:tt
     $($isa:ident => $variant:ident),+ ; $generic:ident) => {
        /// Runs the best variant `isa` allows.
        fn $name(isa: $crate::Isa, $($params)*) {
            let _ = isa;
            $(cfg_isa! { $isa
                if let Some(token) = ladder!(@token $isa isa) {
                    return ladder!(@call ($variant::$name) token, $args);
                }
            })+
            ladder!(@call ($generic::$name) $args);
        }
    };
    (@call ($($path:tt)+) $($token:ident,)? ($($arg:ident),*)) => {
        $($path)+($($token,)? $($arg),*)
    };
    (@token Amx $of:ident) => { $of.amx() };
    (@token Avx512 $of:ident) => { $of.avx512() };
    (@token Avx512Vnni $of:ident) => { $of.avx512_vnni() };
    (@token Avx2 $of:ident) => { $of.avx2() };
    (@token Neon $of:ident) => { $of.neon() };
    (@token NeonDotprod $of:ident) => { $of.neon_dotprod() };
    (@token Simd128 $of:ident) => { $of.simd128() };
}
